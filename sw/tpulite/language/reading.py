"""Text in pictures: where lines are on a page, and which letters a line has.

The networks are those of PaddleOCR: one makes a map of a page, in which text is near 1; one makes
shares of letters from a line. Both read pictures of [3, H, W] from -1 to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

TEXT, _SURE = 0.3, 0.5
"""Share from which a pixel is text, and mean share from which a region is: those of PaddleOCR."""

_GROWTH = 1.6
"""Regions of text are narrower than it; a margin of area / perimeter times this is around them."""

_LEAST = 3
"""Pixels of the shorter side of a region that may be a line."""


@dataclass(frozen=True)
class Box:
    """A rectangle of pixels; right and bottom are outside."""

    left: int
    top: int
    right: int
    bottom: int

    def unscaled(self, scale: float, image: "Image") -> "Box":
        """Return the same part of a picture before its sides were multiplied, a pixel at least."""
        ends = zip((self.left, self.right), (self.top, self.bottom), strict=True)
        first, last = (np.array(each) / scale for each in ends)
        left, top = np.minimum(first.round().astype(int), np.array(image.size) - 1).tolist()
        right, bottom = np.minimum(last.round().astype(int), image.size).tolist()
        return Box(left, top, max(left + 1, right), max(top + 1, bottom))


def picture_pixels(image: "Image") -> np.ndarray:
    """Return a picture as the networks read it: float32 [3, H, W] from -1 to 1."""
    pixels = np.asarray(image.convert("RGB"), np.float32)
    return (pixels.transpose(2, 0, 1) / 127.5 - 1).astype(np.float32)


def fit_picture(image: "Image", height: int, width: int) -> tuple[np.ndarray, float]:
    """Scale a picture until it fits, its corner at the corner; zeros fill the rest.

    Returns
    -------
    ndarray of float32, [3, height, width]
        Pixels from -1 to 1.
    float
        By what its sides were multiplied.
    """
    from PIL.Image import Resampling

    scale = min(height / image.height, width / image.width)
    size = (min(width, -int(-scale * image.width // 1)), min(height, round(scale * image.height)))
    found = picture_pixels(image.resize((max(1, size[0]), max(1, size[1])), Resampling.BILINEAR))
    pixels = np.zeros((3, height, width), np.float32)
    pixels[:, : found.shape[1], : found.shape[2]] = found
    return pixels, scale


def find_lines(shares: np.ndarray) -> list[Box]:
    """Return where a map [H, W] has lines of text, from top to bottom.

    Lines are horizontal; text that is connected is one line.
    """
    labels = _regions(shares > TEXT)
    boxes = []
    for label in np.unique(labels[labels > 0]):
        inside = labels == label
        rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
        height, width = int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1
        if min(height, width) < _LEAST or shares[inside].mean() < _SURE:
            continue
        margin = round(_GROWTH * height * width / (2 * (height + width)))
        left, top = max(0, columns[0] - margin), max(0, rows[0] - margin)
        right, bottom = columns[-1] + 1 + margin, rows[-1] + 1 + margin
        ends = min(shares.shape[1], right), min(shares.shape[0], bottom)
        boxes.append(Box(int(left), int(top), int(ends[0]), int(ends[1])))
    return sorted(boxes, key=lambda box: (box.top, box.left))


def _regions(mask: np.ndarray) -> np.ndarray:
    """Return a number for each pixel of a mask, the same for those that touch; others have 0."""
    labels = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    while True:
        padded = np.pad(labels, 1)
        around = [padded[1:-1, :-2], padded[1:-1, 2:], padded[:-2, 1:-1], padded[2:, 1:-1]]
        spread = np.where(mask, np.maximum.reduce([labels, *around]), 0)
        if (spread == labels).all():
            return labels
        labels = spread


def read_alphabet(path: Path) -> list[str]:
    """Return the letters of a network by their shares: the first is none, the last a space.

    Raises
    ------
    ValueError
        If its file does not say them.
    """
    import onnx

    known = {x.key: x.value for x in onnx.load(path, load_external_data=False).metadata_props}
    if "character" not in known:
        raise ValueError(f"{path}: no letters: the metadata has no entry 'character'")
    return ["", *known["character"].splitlines(), " "]


def letters(shares: np.ndarray, alphabet: Sequence[str]) -> str:
    """Return the text of shares [steps, letters]; a letter that goes on is the same one."""
    best = shares.argmax(axis=-1)
    new = np.append(True, best[1:] != best[:-1]) & (best != 0)
    return "".join([alphabet[int(each)] for each in best[new]])
