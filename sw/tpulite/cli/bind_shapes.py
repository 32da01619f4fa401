"""Shapes and ranges of shapes, as they are typed for ``bind``."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpulite.compiler.bind import ShapeRange

_EXTENTS = ("batch", "height", "width", "channels")


@dataclass(frozen=True)
class AskedShape:
    """A shape to which a network is to be bound."""

    #: Extents of the first input.
    batch: int
    height: int
    width: int
    channels: int | None = None  #: Its channels; None if they are those of the file.

    def __str__(self) -> str:
        extents = (self.batch, self.height, self.width, self.channels)
        return "x".join(str(extent) for extent in extents if extent is not None)


def asked_shape(text: str) -> AskedShape:
    """Read a shape like ``1x96x96``, or ``1x96x96x16`` with channels.

    ValueError if the text is no shape.
    """
    parts = text.split("x")
    if len(parts) not in (3, 4) or not all(_is_extent(part) for part in parts):
        raise ValueError(
            f"{text!r} is not a shape: it must be BATCHxHEIGHTxWIDTH, like 1x96x96, or that and "
            "xCHANNELS"
        )
    return AskedShape(*map(int, parts))


def asked_range(text: str | None, shapes: Sequence[AskedShape], channels: int) -> ShapeRange:
    """Read a range like ``batch=1..8,height=96..224``; a single number is a range, too.

    Extents that it does not name go from the least to the most of ``shapes``; shapes without
    channels have ``channels``, those of the file. ValueError if the text is no range.
    """
    limits: dict[str, tuple[int, int]] = {}
    for name in _EXTENTS:
        values = [getattr(shape, name) for shape in shapes]
        values = [channels if value is None else value for value in values]
        limits[name] = min(values), max(values)
    return ShapeRange(**(limits | named_extents(text)))


def named_extents(text: str | None) -> dict[str, tuple[int, int]]:
    """Return the extents that a range like ``batch=1..8,height=96`` names: least and most.

    ValueError if the text is no range.
    """
    limits = {}
    for part in text.split(",") if text else ():
        name, _, values = part.partition("=")
        low, dots, high = values.partition("..")
        if name not in _EXTENTS or not _is_extent(low) or (dots and not _is_extent(high)):
            raise ValueError(
                f"{part!r} is not a range of {', '.join(_EXTENTS)}: it must be like height=96..224"
            )
        limits[name] = int(low), int(high if dots else low)
    return limits


def _is_extent(text: str) -> bool:
    return text.isascii() and text.isdigit()
