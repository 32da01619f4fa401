"""Shapes and ranges of shapes, as they are typed for ``bind``."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpulite.compiler.bind import ShapeRange

__all__ = ["AskedShape", "asked_range", "asked_shape"]

_EXTENTS = ("batch", "height", "width")


@dataclass(frozen=True)
class AskedShape:
    """A shape to which a network is to be bound.

    Parameters
    ----------
    batch, height, width : int
        Extents of the first input.
    channels : int, optional
        Its channels; None if they are those of the file.
    """

    batch: int
    height: int
    width: int
    channels: int | None = None

    def __str__(self) -> str:
        extents = (self.batch, self.height, self.width, self.channels)
        return "x".join(str(extent) for extent in extents if extent is not None)


def asked_shape(text: str) -> AskedShape:
    """Read a shape like ``1x96x96``.

    Raises
    ------
    ValueError
        If the text is no shape.
    """
    parts = text.split("x")
    if len(parts) != len(_EXTENTS) or not all(part.isdigit() for part in parts):
        raise ValueError(f"{text!r} is no shape: it must be BATCHxHEIGHTxWIDTH, like 1x96x96")
    return AskedShape(*map(int, parts))


def asked_range(text: str | None, shapes: Sequence[AskedShape]) -> ShapeRange:
    """Read a range like ``batch=1..8,height=96..224``.

    Extents that it does not name go from the least to the most of ``shapes``.

    Raises
    ------
    ValueError
        If the text is no range.
    """
    limits: dict[str, tuple[int, int]] = {}
    for name in _EXTENTS:
        values = [getattr(shape, name) for shape in shapes]
        limits[name] = min(values), max(values)
    for part in text.split(",") if text else ():
        name, _, values = part.partition("=")
        low, dots, high = values.partition("..")
        if name not in _EXTENTS or not low.isdigit() or not (high or low).isdigit():
            raise ValueError(f"{part!r} is no range: it must be like height=96..224")
        limits[name] = int(low), int(high if dots else low)
    return ShapeRange(**limits)
