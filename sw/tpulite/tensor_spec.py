"""Inputs and outputs of a program: how the host finds them in DRAM."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.memory import Window

_KEYS = {"packed_rows": "strings"}
"""Fields that have another name in files."""


@dataclass(frozen=True)
class PackedRows:
    """An image whose rows are packed, pixel after pixel: for dense mode."""

    vectors: int  #: Vectors of N bytes in a packed row.
    pad: int  #: Pixels of padding before the first pixel.
    fill: int  #: Value of all padding, in the dtype of the tensor.
    #: Whether packed rows run along the height of the image instead of its width.
    transposed: bool = False


@dataclass(frozen=True)
class Patches:
    """A feature map whose vectors hold patches of pixels, which may overlap or leave gaps.

    Patch (y, x) has its first pixel at ``(y*step[0] - pad[0], x*step[1] - pad[1])``; its channels
    are its pixels, row by row. So a kernel that is as large as a patch has a single tap.
    """

    count: tuple[int, int]  #: Rows and columns of patches.
    size: tuple[int, int]  #: Rows and columns of pixels of a patch.
    step: tuple[int, int]  #: Pixels from a patch to the one below, and to the one on the right.
    pad: tuple[int, int]  #: Rows above the first pixel, and columns on the left of it.
    fill: int  #: Value of all pixels that do not exist, in the dtype of the tensor.

    @property
    def tile(self) -> bool:
        """Whether patches lie beside each other from the first pixel on, so that none is twice."""
        return self.step == self.size and not any(self.pad)


_NUMBERS = ("offset", "m", "channels", "batch")


def _check_types(values: Mapping[str, Any]) -> None:
    """Check fields of a file, which may hold anything; ValueError with the first wrong one."""
    name = values["name"]
    if any(type(values[field]) is not int or values[field] < 0 for field in _NUMBERS):
        raise ValueError(f"tensor {name!r} has the numbers {[values[x] for x in _NUMBERS]}")
    nested = [values["image"] or []]
    nested += [list((values[field] or {}).values()) for field in ("strings", "patches")]
    for number in (x for each in nested for value in each for x in np.ravel(value)):
        if not isinstance(number, np.integer | np.bool_):
            raise ValueError(f"tensor {name!r} has the number {number!r}")
    if values["dtype"] not in ("int8", "uint8", "int32") or not isinstance(name, str):
        raise ValueError(f"tensor {name!r} has the type {values['dtype']!r}")


@dataclass(frozen=True)
class TensorSpec:
    """A network input or output in DRAM.

    The layout is channel-blocked: ``ceil(channels / N)`` blocks, each of ``m`` vectors of N
    elements, each block padded to a multiple of 16 bytes. An image has a vector a pixel, row by
    row, or one a patch of pixels, whose values are the channels; or the rows of either are packed,
    ``m`` of them. The images of a batch lie one after the other, each as if it were alone.
    ValueError if the batch is less than 1.
    """

    name: str  #: Name of the tensor.
    window: Window  #: DRAM window that holds it.
    offset: int  #: First byte in the window, a multiple of 16.
    #: Vectors of an image of the batch: its pixels, patches or packed rows; or of a dense layer.
    m: int
    channels: int  #: Features of a pixel, padding not counted.
    dtype: str = "int8"  #: ``int8``, ``uint8`` or ``int32``.
    #: Height and width, if the tensor is an image; else it is a matrix. An image that is several,
    #: pixels of all of them in each channel block, has their number before height and width.
    image: tuple[int, ...] | None = None
    packed_rows: PackedRows | None = None  #: How the rows of an image are packed.
    #: How often all of this lies there: images that a run computes one after the other.
    batch: int = 1
    patches: Patches | None = None  #: Which pixels of an image each vector holds.
    #: Whether the images of the batch lie there as one: in each channel block the vectors of all.
    stacked: bool = False

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"Tensor {self.name!r} must have a batch of 1 or more: {self.batch}")
        if self.stacked and self.packed_rows is not None:
            raise ValueError(f"Tensor {self.name!r} has packed rows, which cannot be stacked")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape as the host sees it; a batch of more than one is an axis in front."""
        one = (*(self.image or (self.m,)), self.channels)
        return one if self.batch == 1 else (self.batch, *one)

    @property
    def images(self) -> int:
        """Images that it holds, of the batch and of one that is several."""
        image = self.image or ()
        return self.batch * (image[0] if len(image) == 3 else 1)

    @property
    def one(self) -> "TensorSpec":
        """One image of the batch, alone."""
        return replace(self, batch=1, stacked=False)

    @property
    def matrix(self) -> "TensorSpec":
        """All images of a stacked batch as the matrix that lies there."""
        return replace(self, m=self.batch * self.m, image=None, batch=1, stacked=False)

    def offset_of(self, n: int, config: Config) -> int:
        """Return the first byte in the window of image ``n`` of the batch."""
        return self.offset + n * self.one.nbytes(config)

    @property
    def depth(self) -> int:
        """Features of a vector, padding not counted: the channels of a pixel, or of a patch."""
        return self.channels * (math.prod(self.patches.size) if self.patches else 1)

    def blocks(self, config: Config) -> int:
        """Return the number of channel blocks."""
        return -(-self.depth // config.array_size)

    def block_bytes(self, config: Config) -> int:
        """Return the bytes from block to block."""
        vectors = self.m * (self.batch if self.stacked else 1)
        size = vectors * config.array_size * np.dtype(self.dtype).itemsize
        return -(-size // BEAT_BYTES) * BEAT_BYTES

    def nbytes(self, config: Config) -> int:
        """Return the bytes of the whole tensor in DRAM, all images of the batch."""
        if self.packed_rows is not None:
            size = self.m * self.packed_rows.vectors * config.array_size
            return self.batch * (-(-size // BEAT_BYTES) * BEAT_BYTES)
        one = self.blocks(config) * self.block_bytes(config)
        return one if self.stacked else self.batch * one

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        values = asdict(self) | {"window": int(self.window)}
        return {_KEYS.get(name, name): value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TensorSpec":
        """Return the spec of :meth:`as_dict`, whose tuples JSON has made lists."""
        _check_types(values)
        fields = dict(values)
        packed_rows, image, patches = fields.pop("strings"), values["image"], values["patches"]
        if patches is not None:
            pairs = {name: tuple(patches[name]) for name in ("count", "size", "step", "pad")}
            patches = Patches(**(patches | pairs))
        fields |= {
            "window": Window(values["window"]),
            "image": image and tuple(image),
            "packed_rows": packed_rows and PackedRows(**packed_rows),
            "patches": patches,
        }
        return cls(**fields)
