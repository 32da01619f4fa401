"""What an operator must know to be bound to shapes."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.axis import (
    LARGEST_DILATION,
    LARGEST_PAD,
    LARGEST_STRIDE,
    Axis1D,
)
from tpulite.compiler.geometry.closed_forms import Number
from tpulite.compiler.operators.shapes import Extents, Shape
from tpulite.compiler.operators.steps import Step
from tpulite.compiler.operators.tiling import Tiling
from tpulite.compiler.operators.transfer import DramTensor
from tpulite.compiler.plan.strategy import Room, Strategy
from tpulite.graph.layers import Conv, Depthwise, LayerGraph
from tpulite.program import TensorSpec

_O = TypeVar("_O", bound="Operator")


@dataclass(frozen=True)
class Resident:
    """A tensor in the unified buffer: vectors of a channel block one after the other.

    Where it begins is an :class:`~tpulite.compiler.operators.words.Origin`.
    """

    block_rows: int  #: Rows of a block.


Place = DramTensor | Resident


@dataclass(frozen=True)
class Site:
    """Where the tensors of a layer of known extents are; rows count from those that it takes."""

    sources: tuple[Place, ...]  #: Its inputs, in the order of the layer.
    target: Place  #: Its output.


def check_window(layer: Conv | Depthwise) -> None:
    """Check that padding, strides and dilations fit a command; ValueError if they do not."""
    for what, value, limit in (
        ("padding", max(layer.padding), LARGEST_PAD),
        ("stride", max(layer.stride), LARGEST_STRIDE),
        ("dilation", max(layer.dilation), LARGEST_DILATION),
    ):
        if value > limit:
            raise ValueError(f"{layer.title}: {what} must be at most {limit}, not {value}")


class Constants:
    """Image of the CONSTANTS window, to which records of a shape may be added.

    Parameters
    ----------
    data : bytes
        What does not depend on the shape.
    """

    def __init__(self, data: bytes = b"") -> None:
        self._parts, self._size = [data], len(data)

    def add(self, data: bytes) -> int:
        """Add bytes, and return the offset of the first one."""
        offset = self._size
        padded = data + b"\0" * (-len(data) % BEAT_BYTES)
        self._parts.append(padded)
        self._size += len(padded)
        return offset

    def image(self) -> bytes:
        """Return all bytes."""
        if len(self._parts) == 1:  # without a copy
            return self._parts[0]
        return b"".join(self._parts)


@dataclass(frozen=True)
class Task(Generic[_O]):
    """An operator at one shape."""

    operator: _O  #: The operator.
    shape: Shape  #: A shape of the range.
    strategy: Strategy  #: The strategy chosen for it.
    site: Site  #: Where everything is.
    offset: int  #: Where the constants of the operator begin.


class Operator(Protocol):
    """An operator, compiled: all that does not depend on extents.

    ``constants`` are weights and parameters that are the same for all shapes. Operators of one
    ``key`` have the same strategies, and the same steps for the same shape, strategy and site; None
    is the key of those that have parameters of the shape. ``zero_points`` are those of input and
    weights, as far as commands name them.
    """

    config: Config
    constants: bytes
    key: Hashable | None
    zero_points: tuple[int, int]

    def axes_of(self, height: Number, width: Number) -> tuple[Axis1D, Axis1D]:
        """Return the geometries of its window along height and width."""
        ...

    def strategies(self, extents: Extents, room: Room | None = None) -> tuple[Strategy, ...]:
        """Return all strategies, in closed form: of one shape, or of arrays of them.

        Without ``room`` there is the whole buffer, and all tensors are in DRAM.
        """
        return self.strategies_in(extents, room or Room(self.config.ub_rows))

    def strategies_in(self, extents: Extents, room: Room) -> tuple[Strategy, ...]:
        """Return the same; see :meth:`strategies`."""
        ...

    def tiling(self, shape: Shape, strategy: Strategy, room: Room) -> Tiling:
        """Return the tiles of a strategy at one shape; rows count from those that it takes."""
        ...

    @classmethod
    def steps(cls, tasks: Sequence[Task[Self]], constants: Constants) -> list[Step]:
        """Return the steps of all tasks with operators of this class.

        Parameters of a shape, added to ``constants``, are counted from where those of the operator
        begin, too.
        """
        ...

    def source_spec(self, spec: TensorSpec) -> TensorSpec:
        """Return how an input that only this layer reads should lie in DRAM; as usual."""
        return spec

    @property
    def weight_rows(self) -> int:
        """Return the rows of the buffer for all weights and parameters."""
        ...


def tensor_spec(
    layers: LayerGraph,
    name: str,
    window: Window,
    offset: int,
    extents: tuple[int, int, int],
    channels: int,
) -> TensorSpec:
    """Return the spec of a tensor of a network, as a batch of other extents."""
    dtype = "uint8" if name in layers.unsigned else layers.activations[name].dtype
    batch, height, width = extents
    return TensorSpec(name, window, offset, batch * height * width, channels, dtype, extents)


def begin_parts(
    parts: Mapping[str, tuple[str, int]], begins: Mapping[str, int], places: Mapping[str, Place]
) -> dict[str, int]:
    """Return where tensors begin, and those that lie in them, from a channel block of theirs on."""
    found = dict(begins)
    for name, (whole, block) in parts.items():
        place = places[whole]
        size = place.block_bytes if isinstance(place, DramTensor) else place.block_rows
        found[name] = begins[whole] + block * size
    return found
