"""What the command ``compare`` prints and writes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.cli.common import save_json, say
from tpulite.cli.inputs import Inputs
from tpulite.counted import counted, tensors_differ
from tpulite.report.name_cell import NameCell
from tpulite.runtime.comparison import TensorDifference
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparison
from tpulite.runtime.oracles import ORACLES

_ROWS = 40
"""Of a table on the screen at most; the first tensors that differ say most."""


@dataclass(frozen=True, eq=False)
class CompareReport:
    """What came of a comparison, and of what."""

    model: Model  #: The network.
    compared: Comparison  #: What came of it.
    #: What was compared.
    device: str
    oracle: str
    tolerance: float  #: Up to where a difference is none.
    inputs: Inputs  #: The inputs.

    def save(self, path: Path | None) -> None:
        """Write everything as JSON, if a path is given."""
        head = {
            "oracle": self.oracle,
            "device": self.device,
            "exact": str(self.model.exactness),
            "tolerance": self.tolerance,
        }
        save_json(path, head | self.compared.as_dict())

    def print(self, console: Console) -> None:
        """Print tables of what differs, and lines that say what was compared."""
        compared = self.compared
        for remark in self.inputs.remarks:
            say(console, f"inputs: {remark}")
        if compared.different:
            console.print(_table("different tensors", compared.different))
        if compared.different_layers:
            console.print(_table("layers whose definition differs", compared.different_layers))
        for line in (*self._first(), *self._not_compared(), self.model.statement()):
            say(console, line)
        if compared.known and not compared.same:
            named = list(dict.fromkeys(compared.known.values()))
            say(console, f"known bug of {self.oracle}: {'; '.join(named)}")
        if self.oracle in ORACLES:
            say(console, self._definition())
        say(console, self._verdict())

    def _first(self) -> Iterator[str]:
        """Yield where the first difference is."""
        differing = self.compared.different or self.compared.different_layers
        if differing:
            first = differing[0]
            yield (
                f"first different tensor: {first.name!r} of {first.node}: {first.different:,} of "
                f"{first.elements:,} elements differ, by up to {first.largest:g}, the first at "
                f"{list(first.first or ())}"
            )

    def _not_compared(self) -> Iterator[str]:
        compared = self.compared
        every = {x.name: x for x in (*compared.tensors, *compared.layers) if x.left_out}
        if every:
            parts = (
                f"{each.left_out:,} of {each.elements + each.left_out:,} elements of {each.node}"
                for each in every.values()
            )
            yield f"not computed, because no output depends on it: {', '.join(parts)}"
        for why, count in compared.reasons().items():
            yield f"not compared: {counted(count, 'tensor')}: {why}"

    def _definition(self) -> str:
        layers, different = self.compared.layers, self.compared.different_layers
        elements = sum(layer.elements for layer in layers)
        found = tensors_differ(len(different)) if different else "every bit is the same"
        return (
            f"layer definitions compared with {self.oracle}: {counted(len(layers), 'tensor')}, "
            f"{elements:,} elements: {found}"
        )

    def _verdict(self) -> str:
        compared, sides = self.compared, f"{self.device} compared with {self.oracle}"
        if self.oracle not in ORACLES:
            sides = f"{self.device} compared with the definition of the layers"
        found = "every bit is the same"
        if self.tolerance and compared.same:
            found = f"no difference exceeds {self.tolerance:g}"
        if compared.different:
            found = tensors_differ(len(compared.different))
        elif not compared.same:
            found = "the program is the same, but a layer's definition differs"
        return (
            f"{compared.network}, {sides}: {counted(len(compared.tensors), 'tensor')} of "
            f"{counted(compared.inputs, 'input')}, {compared.elements:,} elements: {found}"
        )


def _table(title: str, differences: Sequence[TensorDifference]) -> Table:
    tops = any(each.top1 for each in differences)
    table = Table(box=box.SIMPLE, title=title, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("tensor")
    figures = ("differ", "largest", "mean", "RMSE", "cosine", "SNR dB")
    for column in (*figures, "top-1") if tops else figures:
        table.add_column(column, justify="right", no_wrap=True)
    for each in differences[:_ROWS]:
        row = (
            f"{each.different:,}",
            f"{each.largest:.4g}",
            f"{each.figures.mean:.3g}",
            f"{each.figures.rmse:.3g}",
            f"{each.figures.cosine:.5f}",
            "" if each.figures.snr is None else f"{each.figures.snr:.1f}",
        )
        same, count = each.top1 or (0, 0)
        top = f"{same / count:.1%}" if count else ""
        table.add_row(NameCell(each.name), *row, *([top] if tops else []))
    if len(differences) > _ROWS:
        table.caption = f"and {len(differences) - _ROWS} more (--json has all)"
    return table
