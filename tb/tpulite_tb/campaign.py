"""A bench against the mutants of its component, in one simulator that forks for each.

The simulator starts once, with Python, cocotb and the bench in it. There it forks a child for each
mutant (:func:`fork_for_each`, which cocotb calls before its regression), so that a mutant costs a
fork and the cycles until the bench fails. The component itself, mutation 0, runs first: its time
on the processor, and the cycles of each test, limit what a mutant that hangs may take, and its
results are those of the run.

What becomes of each is appended to a log of lines of JSON, of which the last about a mutant counts:
``{"number": 7, "fate": "killed", "by": "fifo_8_1", "seconds": 0.2}``. Fates are ``killed`` and
``survived``; ``scripts/mutate.py`` appends the solver's ``equivalent``, ``lives`` and
``undecided``.
"""

import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tpulite_tb.mutants import NAME, Mutant, mutants_of
from tpulite_verilated.toolchain import build_root

__all__ = ["Campaign", "campaigns", "environment", "fork_for_each", "opened"]

_ENTRIES = (
    "cocotb.logging:_configure",
    "cocotb._init:init_package_from_simulation",
    f"{__name__}:fork_for_each",
    "cocotb.regression:_run_regression",
)
"""What cocotb calls when the simulator starts; ours is the third."""

_SLACK = 2
"""Half seconds of the processor, and times those of the component, that a mutant may take."""

_TEST_SLACK, _TEST_NANOSECONDS = 3, 5000
"""Times those of the component, and more of them, that one test of a mutant may simulate."""


@dataclass
class Campaign:
    """Mutants of a component, and what became of them so far.

    Attributes
    ----------
    path : Path
        The log.
    component : str
        Module of the component.
    folder : Path
        What :func:`tpulite_tb.mutants.with_mutants` has made.
    """

    path: Path
    component: str
    folder: Path
    fates: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def mutants(self) -> list[Mutant]:
        """All mutants that were drawn."""
        return mutants_of(self.folder)

    def note(self, **what: Any) -> None:
        """Append a line to the log."""
        with self.path.open("a") as file:
            file.write(json.dumps(what) + "\n")

    def read(self) -> "Campaign":
        """Read the log anew and return the campaign."""
        lines = [json.loads(line) for line in self.path.read_text().splitlines()[1:]]
        self.fates = {line["number"]: line for line in lines if line["number"]}
        return self

    def left(self, run: str) -> list[int]:
        """Return which mutants a run of a bench should try: those that it has not met."""
        most, again = (int(os.environ.get(f"TPULITE_MUTANTS_{n}", "0")) for n in ("MOST", "AGAIN"))
        met: set[int] = set()
        if self.path.exists():
            for line in map(json.loads, self.path.read_text().splitlines()[1:]):
                done = line["fate"] in ("killed", "equivalent")
                if done or (line["by"] == run and not again):
                    met.add(line["number"])
        return [m.number for m in self.mutants[: most or None] if m.number not in met]


def opened(bench: str, component: str, folder: Path) -> Campaign:
    """Return the campaign of a bench's component, which may have been begun."""
    path = build_root() / "mutate" / f"{bench}.{folder.name[:12]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        head = {"bench": bench, "component": component, "folder": str(folder)}
        path.write_text(json.dumps(head) + "\n")
    return Campaign(path, component, folder).read()


def campaigns() -> Iterator[tuple[str, Campaign]]:
    """Yield the newest campaign of each bench, with its name."""
    newest: dict[str, Path] = {}
    for path in sorted((build_root() / "mutate").glob("*.jsonl"), key=lambda p: p.stat().st_mtime):
        newest[path.name.split(".")[0]] = path
    for bench, path in sorted(newest.items()):
        head = json.loads(path.read_text().splitlines()[0])
        if "component" not in head:
            continue  # deleted while a simulator went on to write
        yield bench, Campaign(path, head["component"], Path(head["folder"])).read()


def environment(campaign: Campaign, run: str, numbers: list[int]) -> dict[str, str]:
    """Return what a run's environment needs to meet mutants."""
    return {
        "PYGPI_USERS": ",".join(_ENTRIES),
        "TPULITE_MUTATIONS": ",".join(map(str, [0, *numbers])),
        "TPULITE_MUTATION_LOG": str(campaign.path),
        "TPULITE_MUTATION_RUN": run,
        "COCOTB_MAX_FAILURES": "1",  # one kills it
        "COCOTB_REWRITE_ASSERTION_FILES": "",  # which is for readers, and takes most of a mutant
    }


def fork_for_each() -> None:
    """Fork a child for each mutant, in which cocotb goes on; end with the last of them."""
    import cocotb

    for module in os.environ["COCOTB_TEST_MODULES"].split(","):
        importlib.import_module(module)
    log = Path(os.environ["TPULITE_MUTATION_LOG"])
    results = Path(os.environ["COCOTB_RESULTS_FILE"])
    limit = 0.0  # of no mutant none
    durations: dict[str, float] = {}
    for number in map(int, os.environ["TPULITE_MUTATIONS"].split(",")):
        found = results.with_name("mutant.xml") if number else results
        found.unlink(missing_ok=True)
        if (child := os.fork()) == 0:
            _hurry(durations)
            _become(number, found, limit, getattr(cocotb.top, NAME))
            return
        _pid, _status, usage = os.wait4(child, 0)
        seconds = usage.ru_utime + usage.ru_stime
        passed = found.exists() and not _failed(found)
        if not number:
            if not passed:
                break
            limit, durations = _SLACK * (0.5 + seconds), _durations(found)
            continue
        line = {
            "number": number,
            "fate": "survived" if passed else "killed",
            "by": os.environ["TPULITE_MUTATION_RUN"],
            "seconds": round(seconds, 2),
        }
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")
    os._exit(0)


def _durations(results: Path) -> dict[str, float]:
    """Return how many nanoseconds each test has simulated."""
    return {
        case.get("name", ""): float(found.get("value", "0"))
        for case in ElementTree.parse(results).iter("testcase")
        if (found := case.find("properties/property[@name='sim_time_duration']")) is not None
    }


def _hurry(durations: dict[str, float]) -> None:
    """Let each test fail soon after the cycle in which it should have ended."""
    from cocotb.regression import RegressionManager

    begin = RegressionManager._init_test

    def begin_with_limit(manager: Any) -> Any:
        test = manager._test
        if test.name in durations:
            nanoseconds = _TEST_SLACK * durations[test.name] + _TEST_NANOSECONDS
            test.timeout = (round(nanoseconds), "ns")
        return begin(manager)

    RegressionManager._init_test = begin_with_limit


def _become(number: int, results: Path, limit: float, mutation: Any) -> None:
    from cocotb import _shutdown
    from cocotb.handle import Immediate

    _shutdown.register(_end)
    mutation.set(Immediate(number))
    os.environ["COCOTB_RESULTS_FILE"] = str(results)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, limit)
    if number:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)


def _end() -> None:
    """End a child at once: what would end Verilator's threads waits for those of the parent."""
    sys.stdout.flush()
    os._exit(0)


def _failed(results: Path) -> bool:
    cases = list(ElementTree.parse(results).iter("testcase"))
    return not cases or any(
        case.find("failure") is not None or case.find("error") is not None for case in cases
    )
