"""All layers of a network as a machine reads them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tpulite.layout.bm1684x import Geometry
from tpulite.layouts.layer import Layer
from tpulite.report.name_cell import NameCell

_KINDS = {"conv": "conv", "depthwise": "dw", "dense": "dense"}
_WIDTHS = ("S", "w1", "w2", "w3", "w4", "bias", "filter", "w5")
_MOST_NAMES = 3
"""Names of operators that are left out for one reason; of more there is a number."""


@dataclass(frozen=True)
class LeftOut:
    """An operator that is not laid out.

    Parameters
    ----------
    name, source : str
        Its name, and what the file calls it.
    reason : str
        Why not; empty if it has no weights.
    """

    name: str
    source: str
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Layout:
    """The weights of a network, laid out.

    ``print(layout)`` shows a row for each layer: its filter, the mode of ``3ic_optimize``, slots S,
    widths w1 to w5 and offsets in bytes of a lane, and bytes of all lanes.

    Parameters
    ----------
    network : str
        Its name.
    geometry : Geometry
        The machine.
    layers : tuple of Layer
        Convolutions, depthwise and dense layers, in the order in which they run; ``layout[name]``
        is one of them.
    left_out : tuple of LeftOut
        All other operators.
    """

    network: str
    geometry: Geometry
    layers: tuple[Layer, ...]
    left_out: tuple[LeftOut, ...] = ()

    def __getitem__(self, name: str) -> Layer:
        for layer in self.layers:
            if layer.name == name:
                return layer
        names = ", ".join(layer.name for layer in self.layers)
        raise KeyError(f"{name!r} is not a layer; layers are {names}")

    def __rich__(self) -> Group:
        return Group(_layer_table(self), *_notes(self))

    def __repr__(self) -> str:
        return f"<Layout of {self.network}: {len(self.layers)} layers, {self.nbytes:,} bytes>"

    def __str__(self) -> str:
        console = Console(width=80, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    @property
    def nbytes(self) -> int:
        """Bytes of all layers, without what aligns one after the other."""
        return sum(x.nbytes for layer in self.layers for x in layer.tensors().values())


def _layer_table(layout: Layout) -> Table:
    """Return a row for each layer, and the sum of the bytes."""
    machine = layout.geometry
    table = Table(
        title=escape(
            f"{layout.network} for bm1684x: {machine.lanes} lanes, {machine.parallel} input "
            f"channels, {machine.lane_bytes} bytes"
        ),
        show_footer=True,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=0,
    )
    table.add_column("layer", "total")  # names give way, numbers do not
    table.add_column("", no_wrap=True)
    table.add_column("filter", no_wrap=True)
    for name in ("3ic", *_WIDTHS):
        label = f"{name}@" if name in ("bias", "filter") else name
        table.add_column(label, justify="right", no_wrap=True)
    table.add_column("bytes", f"{layout.nbytes:,}", justify="right", no_wrap=True)
    for layer in layout.layers:
        table.add_row(*_cells(layer))
    return table


def _cells(layer: Layer) -> tuple[str | NameCell, ...]:
    spec, manifest = layer.spec, layer.manifest
    if manifest is None:
        widths = ["", str(spec.w1), *[""] * (len(_WIDTHS) - 2)]
    else:
        numbers = (manifest.slots, manifest.w1, manifest.w2, manifest.w3, manifest.w4)
        numbers += (manifest.bias_off, manifest.filter_off, manifest.w5)
        widths = [str(number) for number in numbers]
    return (
        NameCell(layer.name),
        _KINDS[layer.kind] if manifest is not None else f"{_KINDS[layer.kind]} {spec.dtype}",
        "x".join(map(str, spec.filter_shape)),
        str(int(spec.folded)),
        *widths,
        f"{sum(x.nbytes for x in layer.tensors().values()):,}",
    )


def _notes(layout: Layout) -> list[Text]:
    """Return lines that belong below the table: what its biases are, and what is left out."""
    rules = [layer.requant for layer in layout.layers]
    if any(rule is not None and rule.input_zero_point for rule in rules):
        said = "biases are laid out with the input's zero point: bias - zero point * sum(filter)"
        return [Text(said), *_left_out_lines(layout.left_out)]
    return _left_out_lines(layout.left_out)


def _left_out_lines(left_out: Sequence[LeftOut]) -> list[Text]:
    """Return a line for each reason: which operators, and how many of which kind if they are many.

    What has no weights comes last, in one line.
    """
    reasons: dict[str, list[LeftOut]] = defaultdict(list)
    for each in sorted(left_out, key=lambda each: not each.reason):
        reasons[each.reason].append(each)
    lines = []
    for reason, operators in reasons.items():
        kinds: dict[str, list[str]] = defaultdict(list)
        for each in operators:
            kinds[each.source].append(each.name)
        named = bool(reason)
        said = ", ".join(_counted(kind, names, named=named) for kind, names in kinds.items())
        lines.append(Text(f"skipped: {said}: {reason}" if reason else f"without weights: {said}"))
    return lines


def _counted(kind: str, names: Sequence[str], *, named: bool) -> str:
    if named and len(names) <= _MOST_NAMES:
        return " ".join((kind, ", ".join(repr(name) for name in names)))
    return kind if len(names) == 1 else f"{len(names)} {kind}"
