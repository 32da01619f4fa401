"""Integer layers: what the machine is to compute, with no scale left to interpret.

All activations are int8 images [height, width, channels]; a uint8 tensor of a file is the int8 one
with its top bit inverted, so its zero point and clamp are those of the file minus 128. ``(y, x)``
are pairs and padding is (top, left, bottom, right).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT8, Rounding

__all__ = [
    "Affine",
    "Concat",
    "Conv",
    "Depthwise",
    "Elementwise",
    "Image",
    "Layer",
    "LayerGraph",
    "Lut",
    "Pad",
    "Pool",
    "Requantization",
    "Reshape",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Requantization:
    """How int32 sums become int8: :func:`tpulite.arch.numerics.requantize`, a channel or all.

    Parameters
    ----------
    multiplier, shift : ndarray of int64, [C] or [1]
        As channel records hold them.
    bias : ndarray of int32, [C] or [1]
        Added to the sum, wrapping.
    rounding : Rounding
        How to round.
    zero_point, low, high : int
        Added after scaling; clamp.
    """

    multiplier: np.ndarray
    shift: np.ndarray
    bias: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int32))
    rounding: Rounding = Rounding.TFLITE
    zero_point: int = 0
    low: int = INT8[0]
    high: int = INT8[-1]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer: its name (unique), the images that it reads, and the one that it computes."""

    name: str
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Conv(Layer):
    """sum of (x - input_zero_point) * (weight - weight_zero_point); padding adds nothing.

    A dense layer is a convolution whose kernel covers the image.

    Parameters
    ----------
    weight : ndarray of int8, [kh, kw, C, N]
        Weights.
    requantization : Requantization, optional
        None: the int32 sums are the output (then ``input_zero_point`` need not be 0).
    """

    weight: np.ndarray
    requantization: Requantization | None
    input_zero_point: int = 0
    weight_zero_point: int = 0
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Depthwise(Layer):
    """Convolution of each channel with a kernel of its own; weight [kh, kw, C]."""

    weight: np.ndarray
    requantization: Requantization
    input_zero_point: int = 0
    weight_zero_point: int = 0
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Elementwise(Layer):
    """``add``, ``sub`` or ``mul`` of two images, as :class:`tpulite.arch.isa.VectorOp` says.

    The second input may be [1, 1, C] and is then the same for every position.
    """

    op: str
    requantization: Requantization
    zero_points: tuple[int, int]
    multipliers: tuple[int, int] = (0, 0)
    shifts: tuple[int, int] = (0, 0)
    scaling: Scaling = Scaling.TFLITE


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool(Layer):
    """``max``, ``average`` or ``sum`` over windows; what lies in the padding does not count.

    Average divides by the positions that count and rounds half away from zero. Sum is
    requantized.
    """

    op: str
    window: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    requantization: Requantization | None = None
    low: int = INT8[0]
    high: int = INT8[-1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Affine(Layer):
    """requantize(gain * x) by channel; gain int16 [C], requantization of [C]."""

    gain: np.ndarray
    requantization: Requantization


@dataclass(frozen=True, kw_only=True, eq=False)
class Lut(Layer):
    """table[x + 128], table int8 [256]."""

    table: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Pad(Layer):
    """Add ``value`` around the image."""

    padding: tuple[int, int, int, int]
    value: int


@dataclass(frozen=True, kw_only=True)
class Concat(Layer):
    """Join images along an axis: 0 height, 1 width, 2 channels."""

    axis: int = 2


@dataclass(frozen=True, kw_only=True)
class Reshape(Layer):
    """The same elements in row-major order [height, width, channels], in another shape."""


@dataclass(frozen=True)
class Image:
    """Shape [height, width, channels] and dtype of an image: int8, or int32 for raw sums."""

    shape: tuple[int, int, int]
    dtype: str = "int8"


@dataclass(frozen=True, eq=False)
class LayerGraph:
    """A network of integer layers, in an order in which they can run.

    Parameters
    ----------
    name : str
        Name of the network.
    layers : tuple of Layer
        Layers.
    images : mapping of str to Image
        All images by name.
    inputs, outputs : tuple of str
        Images that come from and go to the host.
    constants : mapping of str to ndarray of int8, [H, W, C]
        Images that are known.
    unsigned : frozenset of str
        Inputs and outputs that the host sees as uint8.

    Raises
    ------
    ValueError
        If an image is unknown, or read before it is computed.
    """

    name: str
    layers: tuple[Layer, ...]
    images: Mapping[str, Image]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    unsigned: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        known = {*self.inputs, *self.constants}
        for layer in self.layers:
            for name in layer.inputs:
                if name not in known:
                    raise ValueError(f"Layer {layer.name!r} needs {name!r}, which is not there yet")
            if layer.output not in self.images:
                raise ValueError(
                    f"Layer {layer.name!r} computes the unknown image {layer.output!r}"
                )
            known.add(layer.output)
        for name in self.outputs:
            if name not in known:
                raise ValueError(f"Nothing computes the output {name!r}")

    def macs(self) -> dict[str, int]:
        """Return the multiplications of each layer of the MXU, padding not counted."""
        counts = {}
        for layer in self.layers:
            if isinstance(layer, Conv | Depthwise):
                height, width, channels = self.images[layer.output].shape
                kernel = layer.weight.size // layer.weight.shape[-1]
                counts[layer.name] = height * width * channels * kernel
        return counts
