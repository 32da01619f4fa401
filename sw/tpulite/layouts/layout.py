"""All layers of a network as a machine reads them."""

from dataclasses import dataclass

from rich.console import Console, Group

from tpulite.layout.bm1684x import Geometry
from tpulite.layouts.layer import Layer
from tpulite.layouts.table import layer_table, notes


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
        return Group(layer_table(self), *notes(self))

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
