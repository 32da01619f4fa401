"""What a network is at the shape that it was bound to, on one core or on several."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich import box
from rich.table import Table

from tpulite.compiler.bind import CoreProgram, LayerPlan, NetworkPlan
from tpulite.compiler.operators.operator import Tiling
from tpulite.program import Program, TensorSpec
from tpulite.report.name_cell import NameCell
from tpulite.report.profile import LayerProfile, profile_program
from tpulite.report.traced_run import TracedRun

COLUMNS = (
    "tiles: number and largest size: rows x columns x channels, or pixels x channels",
    "buffers: number, content, and first rows in the unified buffer",
    "cycles: by formula, and below by the cycle model",
)
"""What the columns of the table mean."""


@dataclass(frozen=True)
class BoundReport:
    """A bound program, and what was chosen for its shape."""

    program: Program  #: The program.
    plan: NetworkPlan  #: What was chosen.

    @cached_property
    def _profile(self) -> list[LayerProfile]:
        """What the cycle model says: the start, each layer, the end."""
        return profile_program(TracedRun.predicted(self.program))

    @property
    def cycles(self) -> int:
        """Cycles of the program, by the cycle model."""
        return sum(layer.cycles for layer in self._profile)

    @property
    def heading(self) -> str:
        """The shapes of its inputs, as the host sees them, and how they go through the network."""
        shapes = (f"{x.name} {x.dtype} {list(x.shape)}, NHWC" for x in self.program.inputs)
        return f"{', '.join(shapes)}; {self._passes}"

    @property
    def _passes(self) -> str:
        """How a batch goes through the network."""
        plan = self.plan
        if not plan.times:
            return "empty: nothing to compute"
        if plan.times == 1:
            return f"a batch of {plan.together} at once" if plan.together > 1 else "one image"
        return f"{plan.times} images, one after the other"

    def table(self) -> Table:
        """Return a row for each layer, and the sums, in 80 columns."""
        table = Table(
            show_footer=True,
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        table.add_column("layer", "total")
        table.add_column("strategy", no_wrap=True)
        table.add_column("tiles", no_wrap=True)
        table.add_column("buffers")
        total = f"{self.plan.cycles:,}\n{self.cycles:,}"
        table.add_column("cycles", total, justify="right", no_wrap=True)
        for layer, profile in self._layers():
            table.add_row(
                NameCell(layer.node.layer.name),
                layer.strategy.name.replace("/", "\n/"),
                "\n".join(_tile_lines(layer.tiling)),
                "\n".join(_buffer_lines(layer)),
                f"{self.plan.times * layer.strategy.cycles:,}\n{profile.cycles:,}",
            )
        return table

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        program, plan = self.program, self.plan
        return {
            "inputs": [_tensor(spec) for spec in program.inputs],
            "outputs": [_tensor(spec) for spec in program.outputs],
            "commands": len(program.commands),
            "constant_bytes": len(program.constants),
            "macs": program.macs,
            "together": plan.together,
            "times": plan.times,
            "closed_form_cycles": plan.cycles,
            "cycles": self.cycles,
            "layers": [
                {
                    "name": layer.node.layer.name,
                    "operator": type(layer.node.layer).__name__.lower(),
                    "input": list(layer.shape),
                    "strategy": layer.strategy.name,
                    "tiles": layer.tiling.tiles,
                    "cuts": [
                        {"axis": cut.axis, "parts": len(cut), "first": cut.first}
                        | {"last": cut.last, "largest": cut.largest}
                        for cut in layer.tiling.cuts
                    ],
                    "buffers": [
                        {"holds": each.holds, "count": each.count, "rows": each.rows}
                        | {"begins": list(each.begins)}
                        for each in layer.tiling.buffers
                    ],
                    "closed_form_cycles": plan.times * layer.strategy.cycles,
                    "cycles": profile.cycles,
                }
                for layer, profile in self._layers()
            ],
        }

    def _layers(self) -> Iterator[tuple[LayerPlan, LayerProfile]]:
        return zip(self.plan.layers, self._profile[1:-1], strict=True)


def _tile_words(tiling: Tiling, which: str) -> str:
    """Return the ``first``, ``last`` or ``largest`` part of each axis, as 4 x 32 x 16."""
    return " x ".join(f"{getattr(cut, which):,}" for cut in tiling.cuts)


def _tile_lines(tiling: Tiling) -> Iterator[str]:
    first, last, largest = (_tile_words(tiling, which) for which in ("first", "last", "largest"))
    yield f"{tiling.tiles:,} of {largest}"
    if first != largest:
        yield f"first {first}"
    if last != largest:
        yield f"last {last}"


def _buffer_lines(layer: LayerPlan) -> Iterator[str]:
    """Say where tiles lie, and which tensors stay in the buffer."""
    for each in layer.tiling.buffers:
        yield f"{each.count} {each.holds}: {', '.join(map(str, each.begins))}"
    if not all(layer.room.sources[: len(layer.node.inputs)]):
        yield "input in the buffer"
    if not layer.room.stored:
        yield "output in the buffer"


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


@dataclass(frozen=True)
class CoresReport:
    """A shape on several cores."""

    cores: tuple[CoreProgram, ...]  #: The program of each.
    alone: Program  #: The program of one core that computes all.
    names: Sequence[str]  #: Files of the programs.

    @cached_property
    def each(self) -> list[int]:
        """Cycles of each core, by the cycle model."""
        return [TracedRun.predicted(core.program).cycles for core in self.cores]

    @cached_property
    def of_one(self) -> int:
        """Cycles of one core that computes all, by the cycle model."""
        return TracedRun.predicted(self.alone).cycles

    @property
    def speedup(self) -> float:
        """How much faster the slowest core is than one core alone."""
        return self.of_one / max(self.each)

    def line(self) -> str:
        """Return the cycles of all cores together and of one alone, in a line."""
        cores = "1 core" if len(self.cores) == 1 else f"{len(self.cores)} cores"
        return (
            f"{cores}: {max(self.each):,} cycles; one core: {self.of_one:,}; "
            f"speedup {self.speedup:.2f}"
        )

    def table(self) -> Table:
        """Return a row for each core, in 80 columns."""
        table = Table(
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        table.add_column("program", overflow="fold")
        for name in ("images", "channels read", "computed", "cycles"):
            table.add_column(name, justify="right")
        for core, name, cycles in zip(self.cores, self.names, self.each, strict=True):
            parts = map(_text, (core.images, core.read, core.channels))
            table.add_row(name, *parts, f"{cycles:,}")
        return table

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; ranges are [first, behind the last]."""
        return {
            "cycles": max(self.each),
            "cycles_of_one_core": self.of_one,
            "cores": [
                {
                    "program": name,
                    "images": [core.images.start, core.images.stop],
                    "channels_read": [core.read.start, core.read.stop],
                    "channels": [core.channels.start, core.channels.stop],
                    "cycles": cycles,
                }
                for core, name, cycles in zip(self.cores, self.names, self.each, strict=True)
            ],
        }


def _text(part: range) -> str:
    return f"[{part.start}, {part.stop})"
