"""Programs without a network on the command line: those that ``bind`` writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from tpulite.cli.common import is_stdout, save_array, save_csv, save_json, say
from tpulite.cli.inputs import InputReader, Inputs
from tpulite.cli.options import Choices
from tpulite.cli.reading import Reading
from tpulite.cli.run_report import ANSWERS, print_runs
from tpulite.cli.views import Views
from tpulite.frontend.files import network_name
from tpulite.golden.timing import program_cycles
from tpulite.program import Program
from tpulite.quant.exactness import Exactness
from tpulite.report import report_programs
from tpulite.report.answers import Answer, answer
from tpulite.report.html import Answered
from tpulite.report.profile import Profile, profile_run
from tpulite.report.speed import Speed
from tpulite.report.traced_run import TracedRun
from tpulite.runtime.session import Results, Session, program_graph


@dataclass(frozen=True)
class RunChoices:
    """How a program is to run."""

    source: Path | None  #: Its inputs; else some are drawn.
    limit: int | None  #: Most runs.
    seed: int  #: Of inputs that are drawn.
    device: str  #: Where it runs.
    mhz: float | None  #: A clock to reckon with.
    beside: Callable[[Program], Program]  #: Gives a program the memory that it is to run beside.


def refuse_networks_options(
    path: Path, reading: Reading, choices: Choices, given: Mapping[str, object]
) -> None:
    """Check that nothing was asked of a program that only a network can do.

    Parameters
    ----------
    reading, choices : Reading, Choices
        How a network would be read and compiled.
    given : mapping of str to object
        Other options that are for networks; None if one was not given.

    Raises
    ------
    UsageError, ValueError
        If something was.
    """
    choices.refuse(f"{path} is compiled", but=("memory",))
    reading.refuse(path, Program.load(path).config)
    for option, value in given.items():
        if value is not None:
            raise click.UsageError(f"{option} needs a network, and {path} is a program.")


def run_program(
    path: Path,
    choices: RunChoices,
    views: Views,
    output: Path | None,
    records: tuple[Path | None, Path | None],
) -> None:
    """Run a program, and write what was asked for.

    Parameters
    ----------
    output : Path, optional
        Where the output goes (.npy).
    records : tuple of Path, optional
        Where the figures go, as JSON and as CSV.
    """
    program, (json_path, csv_path) = choices.beside(Program.load(path)), records
    if output is not None and len(program.outputs) != 1:
        raise ValueError(f"--output needs one output, not {len(program.outputs)}: use --json")
    graph = program_graph(program)
    if choices.source is None:
        inputs = Inputs.drawn(graph, choices.limit or 1, choices.seed)
    else:
        inputs = InputReader(graph, Exactness.LITERT_REF).read(choices.source, choices.limit)
    console = Console(quiet=is_stdout(json_path) or is_stdout(csv_path))
    for remark in inputs.remarks:
        say(console, remark)
    each = inputs.each(choices.limit)
    names = inputs.names[: len(each)]
    report = _Report(network_name(path), program, names, _run_all(program, each, choices), choices)
    if views:
        answers = [
            Answered(name, values, report.answers(number), remark="; ".join(inputs.remarks))
            for number, (name, values) in enumerate(zip(names, each, strict=True))
        ]
        profile = report.profile or report.predicted
        views.save_program(profile, report.speed, answers[:ANSWERS])
    if csv_path is not None:
        save_csv(csv_path, report.layers)
    if output is not None:
        save_array(output, np.concatenate([results.output for results in report.results]))
    save_json(json_path, report.as_dict())
    report.print(console)


def _run_all(
    program: Program, inputs: Sequence[Mapping[str, np.ndarray]], choices: RunChoices
) -> list[Results]:
    session, runs = Session(program, choices.device), []
    for number, one in enumerate(inputs):
        session.record_traces(number == 0)  # which takes time
        runs.append(session.run(one))
        if (fault := runs[-1].fault) is not None:
            raise RuntimeError(f"the program stopped with {fault}")
    return runs


@dataclass(frozen=True, eq=False)
class _Report:
    """What came out of runs of a program, as :class:`~tpulite.cli.run_report.RunReport` has it."""

    name: str
    program: Program
    inputs: Sequence[str]
    results: Sequence[Results]
    choices: RunChoices

    @cached_property
    def profile(self) -> Profile | None:
        """Cycles of the first run by layer, if the device has a clock and keeps a trace."""
        first, device = self.results[0], self.choices.device
        if first.cycles is None or not first.traces:
            return None
        return profile_run(self.name, TracedRun.of(self.program, first, device), device)

    @property
    def predicted(self) -> Profile:
        """The same by the cycle model."""
        return profile_run(self.name, TracedRun.predicted(self.program), "cycle model")

    @property
    def layers(self) -> list[dict[str, object]]:
        """The rows of that profile, as plain values; none without it."""
        return [] if self.profile is None else [x.as_dict() for x in self.profile.layers]

    @cached_property
    def cycles(self) -> list[int]:
        """Cycles of each run: the device's own, else those of the cycle model."""
        counted = [results.cycles for results in self.results if results.cycles is not None]
        if counted:
            return counted
        return [program_cycles(self.program)] * len(self.results)

    @property
    def cycles_of(self) -> str:
        """Whose cycles they are."""
        return "cycle model" if self.results[0].cycles is None else self.choices.device

    @property
    def speed(self) -> Speed:
        """Cycles of a run, and what follows of them."""
        return Speed(round(float(np.mean(self.cycles))), self.program.images, self.choices.mhz)

    def answers(self, number: int) -> list[Answer]:
        """Return the outputs of a run."""
        tensors, outputs = program_graph(self.program).tensors, self.results[number].outputs
        return [answer(tensors[name], value) for name, value in outputs.items()]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "program": self.name,
            "device": self.choices.device,
            "inputs": len(self.inputs),
            "batch": self.program.images,
            "macs": self.program.macs,
            "cycles": self.cycles,
            "cycles_of": self.cycles_of,
            **self.speed.as_dict(),
            "answers": [
                {"input": name, "outputs": [each.as_dict() for each in self.answers(number)]}
                for number, name in enumerate(self.inputs)
            ],
            "layers": self.layers,
        }

    def print(self, console: Console) -> None:
        """Print all of it."""
        print_runs(console, self.inputs, self.answers, self.profile, self._lines())

    def _lines(self) -> list[str]:
        program = self.program
        kinds = (("input", program.inputs), ("output", program.outputs))
        return [
            *(
                f"{kind} {spec.name}: {spec.dtype} {list(spec.shape)}, NHWC"
                for kind, specs in kinds
                for spec in specs
            ),
            report_programs([program], cycles=False).line(),
            f"{self.cycles_of}: {self.speed.line()}",
        ]
