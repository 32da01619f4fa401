"""What an operator must know to be bound to shapes."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from numbers import Integral
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.axis import (
    LARGEST_DILATION,
    LARGEST_PAD,
    LARGEST_STRIDE,
    Axis1D,
    Number,
    cuts,
)
from tpulite.compiler.operators.transfer import DramTensor
from tpulite.compiler.operators.words import Step
from tpulite.compiler.plan.slabs import Room, Strategy
from tpulite.graph.layers import Filter, LayerGraph
from tpulite.program import TensorSpec

Extents = tuple[Number, Number, Number, Number]
"""Batch, height, width and channels: of one shape, or of arrays of them."""


class Shape(NamedTuple):
    """Extents of the input of a layer."""

    #: Images, and what one of them is.
    batch: int
    height: int
    width: int
    channels: int

    @property
    def empty(self) -> bool:
        """Whether there is no element: an extent is 0."""
        return not (self.batch and self.height and self.width and self.channels)


@dataclass(frozen=True)
class ShapeRange:
    """Smallest and largest value of each extent, both included; a shape with a 0 is empty.

    Raises
    ------
    ValueError
        If a range is not two whole numbers, is empty or begins below 0.
    """

    #: Of the first input of a network.
    batch: tuple[int, int]
    height: tuple[int, int]
    width: tuple[int, int]
    #: Its channels, if the network is one layer that permits several numbers.
    channels: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            limits = getattr(self, field.name)
            if field.name == "channels" and limits is None:
                continue
            pair = isinstance(limits, tuple | list) and len(limits) == 2
            if not pair or not all(_is_whole(limit) for limit in limits):
                raise ValueError(f"Range of {field.name} must be two whole numbers, not {limits!r}")
            low, high = limits
            if not 0 <= low <= high:
                raise ValueError(
                    f"Range of {field.name} must be two numbers in order from 0 on, "
                    f"not {(low, high)}"
                )

    @property
    def filled(self) -> "ShapeRange | None":
        """The part of it whose shapes are not empty, or None."""
        limits = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {name: pair for name, pair in limits.items() if pair is not None}
        if not all(high for _, high in given.values()):
            return None
        return ShapeRange(**{name: (max(low, 1), high) for name, (low, high) in given.items()})

    def check(self, shape: Shape, title: str) -> None:
        """Check that a shape is in the range.

        Parameters
        ----------
        title : str
            Whose shape it is, for the error.

        Raises
        ------
        ValueError
            If an extent is not.
        """
        for name in ("batch", "height", "width", "channels"):
            value, (low, high) = getattr(shape, name), getattr(self, name)
            if not _is_whole(value) or not low <= value <= high:
                raise ValueError(
                    f"{title}: {name} must be in {low}..{high}, for which the program is "
                    f"compiled, not {value!r}"
                )


def interval(low: int, high: int) -> str:
    """Return an interval in words; of one number the number.

    Examples
    --------
    >>> interval(0, 16), interval(3, 3)
    ('0..16', '3')
    """
    return str(low) if low == high else f"{low}..{high}"


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


@dataclass(frozen=True)
class Cut:
    """An axis of a layer's output, cut into parts.

    Examples
    --------
    >>> cut = Cut("rows", (0, 3, 6, 8))
    >>> len(cut), cut.first, cut.last, cut.largest
    (3, 3, 2, 3)
    """

    #: ``rows`` (of all images of a batch, one after the other), ``columns``, ``pixels`` (rows and
    #: columns in one) or ``channels``.
    axis: str
    bounds: tuple[int, ...]  #: Where each part begins, and where the last one ends.

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def first(self) -> int:
        """Size of the first part."""
        return self.bounds[1] - self.bounds[0]

    @property
    def last(self) -> int:
        """Size of the last part: the tail."""
        return self.bounds[-1] - self.bounds[-2]

    @property
    def largest(self) -> int:
        """Size of the largest part."""
        return int(np.diff(self.bounds).max())


@dataclass(frozen=True)
class Buffers:
    """Ranges of rows of the unified buffer that tiles take in turn (ping-pong)."""

    #: ``tile`` (input, computed in place, then output), ``input``, ``output`` or ``weights``.
    holds: str
    count: int  #: How many; tile i lies in buffer i mod ``count``.
    #: First row of the first buffer, and rows of each; they follow one another.
    row: int
    rows: int

    @property
    def begins(self) -> tuple[int, ...]:
        """The first row of each buffer."""
        return tuple(self.row + self.rows * i for i in range(self.count))


@dataclass(frozen=True)
class Tiling:
    """All tiles of a layer at one shape."""

    #: The axes of the output. Each combination of parts is a tile, so that every element is in
    #: exactly one of them.
    cuts: tuple[Cut, ...]
    #: Where tiles lie; without those of tensors that stay in the buffer.
    buffers: tuple[Buffers, ...]

    @classmethod
    def of(cls, cuts: Sequence[Cut], buffers: Sequence[Buffers]) -> "Tiling":
        """Return a tiling; buffers of no rows are left out."""
        return cls(tuple(cuts), tuple(each for each in buffers if each.rows and each.count))

    @property
    def tiles(self) -> int:
        """How many tiles there are."""
        return prod(map(len, self.cuts))

    def behind(self, row: int) -> "Tiling":
        """Return the same of a layer whose rows begin at a row of the buffer."""
        moved = tuple(replace(each, row=each.row + row) for each in self.buffers)
        return replace(self, buffers=moved)


def block_cut(channels: int, blocks: Sequence[int] | np.ndarray, size: int) -> Cut:
    """Return channels cut where blocks of ``size`` begin; the last part ends with the channels."""
    bounds = (min(int(block) * size, channels) for block in blocks)
    return Cut("channels", tuple(bounds))


def even_cut(axis: str, extent: int, parts: int, unit: int) -> Cut:
    """Return an axis cut into nearly equal parts: see :func:`cuts`."""
    return Cut(axis, tuple(cuts(extent, parts, unit).tolist()))


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


def check_window(layer: Filter) -> None:
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
