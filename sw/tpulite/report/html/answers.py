"""What a network answered: its likeliest classes or values, beside a picture of the input."""

import base64
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite.report.answers import Answer
from tpulite.report.html.shell import as_json

_SIDE = 8
"""Least side of a square that a vector is seen as."""


@dataclass(frozen=True, eq=False)
class Answered:
    """An input and what a network answered."""

    name: str  #: What the input is called.
    inputs: Mapping[str, np.ndarray]  #: Its tensors; those that can be seen as a picture are shown.
    answers: Sequence[Answer]  #: The outputs.
    expected: str = ""  #: The class that it has by its labels, if there are any.
    remark: str = ""  #: What was done to the inputs.


def make_answers(answered: Answered) -> dict[str, Any]:
    """Return an input and its answers as plain values."""
    pictures = [
        {"name": tensor, "shape": "x".join(map(str, values.shape)), "url": url}
        for tensor, values in answered.inputs.items()
        if (url := picture_url(values))
    ]
    outputs = [
        {
            "name": each.tensor.name,
            "top": [_class(each, index) for index in each.top],
            "lines": [] if each.top else each.lines(),
        }
        for each in answered.answers
    ]
    return {
        "name": answered.name,
        "remark": answered.remark,
        "pictures": pictures,
        "outputs": outputs,
        "expected": answered.expected,
    }


def _class(answer: Answer, index: int) -> dict[str, Any]:
    label = answer.names[index] if answer.names else f"class {index}"
    return {"label": label, "value": as_json(float(answer.values.reshape(-1)[index]))}


def picture_url(values: np.ndarray) -> str:
    """Return a tensor as a picture, from its least value (black) to its largest; else nothing.

    A picture has two extents, and one or three channels, first or last; extents of 1 do not count.
    A vector is one if it fills a square, as that of pixels for a dense layer does.
    """
    shape = [extent for extent in values.shape if extent > 1]
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return ""
    side = math.isqrt(values.size)
    if len(shape) == 1 and side**2 == values.size and side >= _SIDE:
        shape = [side, side]
    plane = values.reshape(shape).astype(np.float64)
    if len(shape) == 3 and shape[0] == 3 != shape[-1]:
        plane = plane.transpose(1, 2, 0)
    if plane.ndim != 2 and plane.shape[2:] != (3,):
        return ""
    low, span = plane.min(), np.ptp(plane) or 1.0
    pixels = np.round((plane - low) * (255 / span)).astype(np.uint8)
    return f"data:image/png;base64,{base64.b64encode(_png(pixels)).decode()}"


def _png(pixels: np.ndarray) -> bytes:
    """Return pixels, uint8 [height, width] or [height, width, 3], as a PNG file (RFC 2083)."""
    height, width = len(pixels), pixels.shape[1]
    kind = 2 if pixels.ndim == 3 else 0
    lines = np.zeros((height, 1 + pixels.size // height), np.uint8)  # filter type 0: none
    lines[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">2I5B", width, height, 8, kind, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
