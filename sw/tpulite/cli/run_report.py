"""What ``run`` says: answers, the account of cycles, and how fast it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from rich.console import Console

from tpulite.cli.common import say
from tpulite.counted import counted
from tpulite.golden.timing import program_cycles
from tpulite.report import report_programs
from tpulite.report.answers import Answer, answer
from tpulite.report.html import Answered
from tpulite.report.network_facts import next_step
from tpulite.report.profile import Profile, profile_runs
from tpulite.report.speed import Speed
from tpulite.report.traced_run import TracedRun
from tpulite.report.traffic import limit_cycles
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import ModelResults
from tpulite.runtime.model_summary import host_lines

ANSWERS = 10
"""Inputs whose answers are printed and on the page; all are in the record."""


def print_runs(
    console: Console,
    inputs: Sequence[str],
    answers: Callable[[int], list[Answer]],
    profile: Profile | None,
    lines: Sequence[str],
) -> None:
    """Print the answers to the first inputs, the profile, and lines."""
    found = []
    for number, name in enumerate(inputs[:ANSWERS]):
        found += [name, *(f"  {line}" for each in answers(number) for line in each.lines())]
    if (more := len(inputs) - ANSWERS) > 0:
        found.append(f"... and {more} more: --output and --json write all")
    for line in found:
        console.print(line, highlight=False, markup=False)
    if profile is not None:
        console.print(profile)
    for line in lines:
        say(console, line)


@dataclass(frozen=True, eq=False)
class RunReport:
    """What came out of runs."""

    model: Model  #: The network, compiled.
    device: str  #: Where it ran.
    inputs: Sequence[str]  #: What the inputs are called.
    results: ModelResults  #: What they gave.
    labels: np.ndarray | None = None  #: Their classes.
    names: Sequence[str] = ()  #: Names of all classes.
    mhz: float | None = None  #: A clock to reckon with.
    host_ms: float | None = None  #: Milliseconds that the CPU takes for an inference.
    file: str = ""  #: The network's file, which quantize could take; empty if it is compiled.

    @cached_property
    def profile(self) -> Profile | None:
        """Cycles of the first run by layer, if the device has a clock and keeps a trace."""
        pairs = list(zip(self.model.programs, self.results.segments[0], strict=False))
        if not pairs or any(result.cycles is None or not result.traces for _, result in pairs):
            return None
        runs = [TracedRun.of(program, result, self.device) for program, result in pairs]
        return profile_runs(self.model, runs, self.device)

    @property
    def layers(self) -> list[dict[str, object]]:
        """The rows of that profile, as plain values; none without it."""
        return [] if self.profile is None else [x.as_dict() for x in self.profile.layers]

    @cached_property
    def cycles(self) -> tuple[int, ...]:
        """Cycles of each run: the device's own, else those of the cycle model."""
        if self.results.cycles is not None:
            return self.results.cycles
        each = [program_cycles(x) for x in self.model.programs]
        runs = len(self.results.segments)
        if self.model.options.resident:
            cold, warm = each
            return (cold, *[warm] * (runs - 1))
        return (sum(each),) * runs

    @property
    def accuracy(self) -> float | None:
        """Share of the inputs whose answer is their class."""
        if self.labels is None:
            return None
        return float((self.results.classes == self.labels[: len(self.inputs)]).mean())

    def answers(self, number: int) -> list[Answer]:
        """Return the outputs of an input; of several those that have a shape of their own."""
        graph, count, answers = self.model.graph, len(self.inputs), []
        for name, values in self.results.outputs.items():
            tensor = graph.tensors[name]
            if tensor.dtype != "object":
                values = values.reshape(count, -1)[number]
            elif count > 1:
                continue
            answers.append(answer(tensor, values, self.names, graph.classes))
        return answers

    def answered(self, values: Mapping[str, np.ndarray], remark: str) -> list[Answered]:
        """Return what a page shows: the first inputs, given all by name, and their answers."""
        return [
            Answered(
                name,
                {tensor: each[number] for tensor, each in values.items()},
                self.answers(number),
                self._verdict(number),
                remark,
            )
            for number, name in enumerate(self.inputs[:ANSWERS])
        ]

    def _verdict(self, number: int) -> str:
        """Return in words whether an answer is right; nothing without labels."""
        if self.labels is None:
            return ""
        expected, found = (int(x[number]) for x in (self.labels, self.results.classes))
        name = self.names[expected] if self.names else f"class {expected}"
        return f"right: {name}" if found == expected else f"wrong: by its label it is {name}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        model = self.model
        return {
            "network": model.graph.name,
            "exactness": str(model.exactness),
            "device": self.device,
            "inputs": len(self.inputs),
            "batch": self.results.batch,
            "macs": model.macs,
            "host_macs": model.host_macs,
            "crossings": model.crossings,
            "cycles": list(self.cycles) if model.layers else None,
            "cycles_of": self.device if self.results.cycles is not None else "cycle model",
            **(self._speed.as_dict()),
            "classes": model.graph.classes,
            "accuracy": self.accuracy,
            "answers": [
                {"input": name, "outputs": [each.as_dict() for each in self.answers(number)]}
                for number, name in enumerate(self.inputs)
            ],
            "layers": self.layers,
        }

    def print(self, console: Console) -> None:
        """Print all of it."""
        print_runs(console, self.inputs, self.answers, self.profile, self._lines())

    @property
    def _speed(self) -> Speed:
        cycles = round(float(np.mean(self.cycles or 0)))
        return Speed(cycles, self.results.batch, self.mhz, self.model.cpu_share, self.host_ms)

    def _lines(self) -> list[str]:
        model = self.model
        operators = model.summary()
        by_library = any(operator.library for operator in operators)
        lines = [model.statement(), *(host_lines(operators) if by_library else ())]
        if model.programs:
            lines.append(report_programs(model.steady_programs, cycles=False).line())
        count = len(self.inputs)
        inputs = counted(count, "input")
        if model.layers:
            lines.append(f"{inputs} on {self.device}{self._cycle_words()}")
            if self.mhz is not None:
                lines.append(self._speed.time_words())
        else:
            lines.append(f"{inputs} on the CPU: nothing runs on the machine")
        runs, placed = bool(model.layers), model.plan.placed
        if self.file and (step := next_step(placed, self.file, model.config, runs=runs)):
            lines.append(step)
        if self.accuracy is not None:
            lines.append(f"accuracy: {self.accuracy:.2%} of {inputs}")
        return lines

    def _cycle_words(self) -> str:
        low, high, batch = min(self.cycles), max(self.cycles), self.results.batch
        spread = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        bound = limit_cycles(self.model.steady_programs)
        limit = f" (lower bound {bound:,})" if self._speed.complete else ""
        each = "each" if batch == 1 else f"per batch of {batch}"
        whose = "" if self.results.cycles is not None else " by the cycle model"
        return f": {spread} cycles {each}{whose}{limit}"
