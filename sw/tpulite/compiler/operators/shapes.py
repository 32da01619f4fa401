"""Shapes of tensors, and the ranges of them for which a program is compiled."""

from dataclasses import dataclass, fields
from numbers import Integral
from typing import NamedTuple

from tpulite.compiler.geometry.closed_forms import Number

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
        shape : Shape
            The shape.
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
