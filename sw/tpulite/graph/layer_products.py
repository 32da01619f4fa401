"""Integer layers of the systolic array: convolutions."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeGuard

import numpy as np

from tpulite.arch.isa import CONV, PAIR_STRIDE
from tpulite.graph.layer_base import (
    Activation,
    Layer,
    Made,
    Windows,
    check_array,
    check_int8,
    check_padding,
    check_pair,
)
from tpulite.graph.requantization import Requantization


@dataclass(frozen=True, kw_only=True, eq=False)
class Filter(Layer):
    """sum of (x - input_zero_point) * (weight - weight_zero_point); padding adds nothing."""

    weight: np.ndarray  #: Ndarray of int8, [kh, kw, ...]. Weights; the last axis is of outputs.
    #: None: the int32 sums are the output (then ``input_zero_point`` need not be 0).
    requantization: Requantization | None
    input_zero_point: int = 0
    weight_zero_point: int = 0
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    rank = 3
    """Axes of the weights."""
    on_array = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_weight(self, self.rank)
        check_pair(self.title, "stride", self.stride)
        check_pair(self.title, "dilation", self.dilation)
        check_padding(self.title, self.padding)

    def _infer(self, *activations: Activation) -> Activation:
        return self._slid(activations[0], self.windows)

    def _slid(self, x: Activation, windows: Windows) -> Activation:
        _check_depth(self, x)
        height, width = windows.outputs(self.title, x.shape)
        dtype = "int8" if self.requantization else "int32"
        return Activation((height, width, self.weight.shape[-1]), dtype)

    @property
    def weights(self) -> np.ndarray:
        """Its weights."""
        return self.weight

    @property
    def windows(self) -> Windows:
        """What slides over its input."""
        kh, kw = self.weight.shape[:2]
        return Windows((kh, kw), self.stride, self.dilation, self.padding)

    @property
    def weight_sums(self) -> np.ndarray:
        """Sum of the weights of each output, less their zero points, as often as they count."""
        taps = self.weight.reshape(-1, self.weight.shape[-1])
        return taps.sum(axis=0, dtype=np.int64) - len(taps) * self.weight_zero_point

    def macs(self, *activations: Activation) -> int:
        """Return the multiplications of the array, padding not counted."""
        return math.prod(activations[-1].shape) * self.weight[..., 0].size

    def of_channels(self, some: np.ndarray | slice) -> Self:
        """Return the layer that computes some channels."""
        record = self.requantization and self.requantization.of(some)
        return replace(self, weight=self.weight[..., some], requantization=record)


@dataclass(frozen=True, kw_only=True, eq=False)
class Conv(Filter):
    """Convolution of all channels; weight [kh, kw, C, N].

    A dense layer is a convolution whose kernel covers the activation.
    """

    #: Whether input and output are int16. Their columns are pairs, [H, 2 W, C]: upper bytes, then
    #: lower bytes with the top bit inverted. Padding is the int16 0; dilation and padding along the
    #: width count columns, two to a vector, but the stride along it counts pairs.
    int16: bool = False
    #: Ndarray of int64, [C]. Only of int16: products of an input channel count 256**digit times,
    #: and sums wrap at int32. Channels of a block of the array have the same digit. Without them
    #: all digits are 0.
    digits: np.ndarray | None = None

    rank = 4
    mixes_channels = True
    made = Made.BY_ROWS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.digits is not None:
            self._check_digits(self.digits)
        how = self.requantization
        if (how is not None and how.bits == 16) != self.int16:
            raise ValueError(f"{self.title} must requantize to 16 bits if it is of int16")
        if self.int16:
            self._check_pairs()

    def _infer(self, *activations: Activation) -> Activation:
        (x,) = activations
        if not self.int16:
            return super()._infer(x)
        if x.shape[1] % 2:
            raise ValueError(f"{self.title} needs pairs of int8, not rows of {x.shape[1]}")
        pairs = Activation((x.shape[0], x.shape[1] // 2, x.shape[2]))
        windows = self.windows._replace(**self.pair_geometry)
        height, width, channels = self._slid(pairs, windows).shape
        return Activation((height, 2 * width, channels))

    @property
    def counted(self) -> np.ndarray:
        """Weights less their zero point as often as they count, int64."""
        weight = self.weight.astype(np.int64) - self.weight_zero_point
        return weight if self.digits is None else weight << 8 * self.digits[:, np.newaxis]

    @cached_property
    def narrow(self) -> bool:
        """Whether its weights are int4: from -8 to 7, with zero point 0."""
        return not self.weight_zero_point and bool(np.all((self.weight >= -8) & (self.weight <= 7)))

    @property
    def weight_sums(self) -> np.ndarray:
        """Sum of the weights of each output, less their zero points, as often as they count."""
        return super().weight_sums if self.digits is None else self.counted.sum(axis=(0, 1, 2))

    @property
    def pair_geometry(self) -> dict[str, Any]:
        """Stride, dilation and padding of a layer of int16 in vectors, not in columns."""
        top, left, bottom, right = self.padding
        return {
            "stride": self.stride,
            "dilation": (self.dilation[0], max(1, self.dilation[1] // 2)),
            "padding": (top, left // 2, bottom, right // 2),
        }

    def reading(self, order: np.ndarray, count: int) -> Self | None:
        """Return the layer that reads its channels from others; None if they have digits."""
        if self.digits is not None:
            return None
        shape = (*self.weight.shape[:2], count, self.weight.shape[3])
        weight = np.full(shape, self.weight_zero_point, np.int8)
        weight[:, :, order] = self.weight
        return replace(self, weight=weight)

    def _check_digits(self, digits: np.ndarray) -> None:
        check_array(self.title, "digits", digits, "int64", 1)
        if not self.int16 or len(digits) != self.weight.shape[2] or digits.min() < 0:
            raise ValueError(f"{self.title} must be of int16 and have digits of its channels")
        if digits.max() > CONV.limit("digit"):
            raise ValueError(f"{self.title} has a digit {digits.max()}, which is beyond int32")

    def _check_pairs(self) -> None:
        taps, step = self.weight.shape[1], self.dilation[1]
        whole = {
            "zero points of 0": not (self.input_zero_point or self.weight_zero_point),
            f"a horizontal stride of at most {PAIR_STRIDE}": self.stride[1] <= PAIR_STRIDE,
            "an even horizontal dilation": taps == 1 or step % 2 == 0,
            "even horizontal padding": not (self.padding[1] % 2 or self.padding[3] % 2),
        }
        for what, there in whole.items():
            if not there:
                raise ValueError(f"{self.title} is of int16: it must have {what}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Depthwise(Filter):
    """Convolution of each channel with a kernel of its own; weight [kh, kw, C]."""

    requantization: Requantization

    by_channel = True
    made = Made.BY_BLOCKS


@dataclass(frozen=True, kw_only=True, eq=False)
class TransposedConv(Layer):
    """Each pixel (y, x) adds its products to a window of the output: a convolution backwards.

    Tap (i, j) of the kernel goes to output (y * stride - top + i, x * stride - left + j), if there
    is such a pixel. Sums are those of (x - input_zero_point) * (weight - weight_zero_point).
    """

    weight: np.ndarray  #: Ndarray of int8, [kh, kw, C, N]. Weights.
    requantization: Requantization
    stride: tuple[int, int]  #: Outputs from the window of a pixel to that of the next.
    #: Rows and columns of the windows of the first pixels (top, left) that are not there.
    padding: tuple[int, int]
    size: tuple[int, int]  #: Height and width of the output.
    input_zero_point: int = 0
    weight_zero_point: int = 0
    #: Whether input and output are int16: columns are pairs, as those of :class:`Conv`. All
    #: parameters count vectors.
    int16: bool = False

    mixes_channels = on_array = True
    #: They have none of what those of :class:`Conv` may have.
    dilation = (1, 1)
    digits = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_weight(self, rank=4)
        check_pair(self.title, "stride", self.stride)
        check_pair(self.title, "size", self.size)
        check_padding(self.title, (*self.padding, 0, 0))
        if (self.requantization.bits == 16) != self.int16:
            raise ValueError(f"{self.title} must requantize to 16 bits if it is of int16")
        if self.int16 and (self.input_zero_point or self.weight_zero_point):
            raise ValueError(f"{self.title} is of int16: it must have zero points of 0")

    def of_channels(self, some: np.ndarray | slice) -> Self:
        """Return the layer that computes some channels."""
        record = self.requantization.of(some)
        return replace(self, weight=self.weight[..., some], requantization=record)

    def _infer(self, *activations: Activation) -> Activation:
        _check_depth(self, activations[0])
        height, width = self.size
        return Activation((height, width * (1 + self.int16), self.weight.shape[3]))


def is_pointwise(layer: Layer) -> TypeGuard[Conv]:
    """Return whether a layer multiplies each pixel, and nothing else, by a matrix."""
    return isinstance(layer, Conv) and layer.windows.single


def is_int8_conv(layer: Layer) -> TypeGuard[Conv]:
    """Return whether a layer is a convolution of bytes, not of pairs of them."""
    return isinstance(layer, Conv) and not layer.int16


def _check_depth(layer: Filter | TransposedConv, x: Activation) -> None:
    if x.shape[2] != layer.weight.shape[2]:
        raise ValueError(
            f"{layer.title} has weights of {layer.weight.shape[2]} channels, not {x.shape[2]}"
        )


def _check_weight(layer: Filter | TransposedConv, rank: int) -> None:
    check_array(layer.title, "weight", layer.weight, "int8", rank)
    check_int8(
        layer.title,
        input_zero_point=layer.input_zero_point,
        weight_zero_point=layer.weight_zero_point,
    )
    channels = layer.weight.shape[-1]
    if layer.requantization is not None and layer.requantization.channels not in (1, channels):
        raise ValueError(
            f"{layer.title} has {channels} channels and requantizes {layer.requantization.channels}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class MatMul(Layer):
    """For each row the product of two matrices: [H, M, K] times [H, K, N] is [H, M, N].

    The second one is [H, N, K] if it is ``transposed``. Sums are those of (a - zero_points[0]) *
    (b - zero_points[1]), requantized for all channels alike, without a bias.
    """

    requantization: Requantization
    zero_points: tuple[int, int] = (0, 0)
    transposed: bool = False

    operands = 2
    mixes_channels = on_array = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int8(self.title, a_zero_point=self.zero_points[0], b_zero_point=self.zero_points[1])
        if self.requantization.channels != 1 or self.requantization.bias.any():
            raise ValueError(f"{self.title} must requantize all channels alike, without a bias")

    def _infer(self, *activations: Activation) -> Activation:
        a, b = (activation.shape for activation in activations)
        height, inner, columns = (b[0], b[2], b[1]) if self.transposed else b
        if (height, inner) != (a[0], a[2]):
            raise ValueError(f"{self.title} cannot multiply {a} by {b}")
        return Activation((a[0], a[1], columns))

    @property
    def channels_apart(self) -> bool:
        """Those of a product with a transposed matrix are rows of that."""
        return len({*self.inputs}) == 2 and not self.transposed

    def macs(self, *activations: Activation) -> int:
        """Return the multiplications of the array."""
        return math.prod(activations[-1].shape) * activations[0].shape[2]


@dataclass(frozen=True, kw_only=True)
class Transpose(Layer):
    """Columns and channels change places: [H, W, C] becomes [H, C, W]."""

    on_array = True
    channels_apart = False

    def _infer(self, *activations: Activation) -> Activation:
        height, width, channels = activations[0].shape
        return Activation((height, channels, width))

    def sliceable(self, axis: int = 0) -> bool:
        """Return whether it can run slice by slice."""
        return axis == 0
