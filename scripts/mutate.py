"""Mutants of a component's RTL against its bench; those that it lets live, against the solver.

Each is one small change of one bit of a cell, by Yosys. A bench that fails kills it. Of one that
lives the solver says whether it is a mutant at all. Results are kept in build/mutate/NAME.json, so
that an interrupted run goes on; the exit code is 1 if a mutant lives that is not equivalent.
"""

import argparse
import importlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tpulite.arch.isa import Opcode
from tpulite.arch.numerics import Rounding
from tpulite_formal.equivalence import differ
from tpulite_rtl.verilated.toolchain import build_root
from tpulite_tb import harness
from tpulite_tb.mutants import BITS, NAME, mutants_of, with_mutants

_UNIT = Path(__file__).parents[1] / "tb/unit"
_SECONDS = 300
"""A bench that takes longer has been hung by its mutant."""
_SOLVER_SECONDS = 30


@dataclass(frozen=True)
class Bench:
    """A test of a component, and its arguments."""

    module: str
    arguments: tuple[Any, ...] = ()

    def run(self) -> None:
        """Run it; AssertionError if it fails."""
        getattr(importlib.import_module(self.module), self.module)(*self.arguments)


COMPONENTS = {
    "lib.fifo": Bench("test_fifo", (8, 3)),
    "cp.token_counters": Bench("test_token_counters"),
    "vpu.requantizer_lane": Bench("test_requantizer_lane", (tuple(Rounding), "dsp")),
    "dma.burst_splitter": Bench("test_burst_splitter", (4, Opcode.LOAD)),
}


def _hung(signal_number: int, frame: object) -> None:
    raise TimeoutError


def killed(bench: Bench, number: int) -> bool:
    """Tell whether a bench fails with a mutant."""
    signal.signal(signal.SIGALRM, _hung)
    signal.alarm(_SECONDS)
    try:
        with patch.dict(os.environ, TPULITE_MUTATION=str(number)):
            bench.run()
    except (AssertionError, TimeoutError):
        return True
    finally:
        signal.alarm(0)
    return False


def judge(bench: Bench, source: Path, number: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Return what became of a mutant."""
    if killed(bench, number):
        return {"fate": "killed"}
    say(f"mutant {number} lives, the solver decides")
    folder = build_root() / "mutate" / "miter"
    verdict = differ(source, folder, NAME, BITS, number, _SOLVER_SECONDS)
    fates = {"never": "equivalent", "high": "lives"}
    return {"fate": fates.get(verdict.status, "undecided"), "cycles": verdict.cycles}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("component", choices=COMPONENTS)
    parser.add_argument("--count", type=int, default=200, help="mutants that are drawn")
    parser.add_argument("--most", type=int, help="mutants that are tried now")
    options = parser.parse_args()
    bench = COMPONENTS[options.component]
    sys.path.insert(0, str(_UNIT))
    os.environ |= {"TPULITE_MUTANTS": str(options.count), "COCOTB_RANDOM_SEED": "1"}
    os.environ["COCOTB_MAX_FAILURES"] = "1"  # one kills it
    folders: list[Path] = []

    def noted(*arguments: Any, **named: Any) -> Path:
        folders.append(with_mutants(*arguments, **named))
        return folders[-1]

    with patch.object(harness, "with_mutants", noted):
        if killed(bench, 0):
            sys.exit(f"The bench of {options.component} fails without a mutant")
    mutants = mutants_of(folders[0])
    path = build_root() / "mutate" / f"{options.component}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else {}
    done = kept.get(folders[0].name, {})
    say = partial(print, file=sys.stderr, flush=True)
    for mutant in [m for m in mutants if str(m.number) not in done][: options.most]:
        fate = judge(bench, folders[0] / "mutated.il", mutant.number, say)
        done[str(mutant.number)] = asdict(mutant) | fate
        path.write_text(json.dumps({folders[0].name: done}, indent=1) + "\n")

    counts = Counter(each["fate"] for each in done.values())
    print(f"{options.component}: {len(done)} of {len(mutants)} mutants;", dict(counts))
    for each in done.values():
        if each["fate"] not in ("killed", "equivalent"):
            print(f"  {each['number']}: {each['change']}, {each['place']}: {each['fate']}", end="")
            print(f", differs after {each['cycles']} cycles" if each["fate"] == "lives" else "")
    sys.exit(int(bool(counts["lives"] or counts["undecided"])))


if __name__ == "__main__":
    main()
