"""Means and sums: how each library scales a sum, and records that do the same.

The formulas were found by comparison with the libraries' results; that of ONNX Runtime is
also in MLAS's ``MlasQLinearGlobalAveragePoolNchw``. Where the machine's arithmetic is not that of
the library, a record counts only if it gives the same result for *every* sum that can occur.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8, Rounding, quantize_multiplier
from tpulite.golden import ops
from tpulite.graph.layers import Requantization
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import make_requantization, round_away
from tpulite.quant.tensors import Quantized, UnsupportedError

_VECTOR = 16
"""Channels at a time of LiteRT's optimized kernel; the rest is left to the scalar code."""

_LARGEST = 1 << 14
"""Most elements of a mean whose sums are tried one by one."""


@dataclass(frozen=True)
class Mean:
    """A mean of an image, or a sum."""

    #: Input and output.
    x: Quantized
    y: Quantized
    count: int  #: Elements of each sum.
    channels: int  #: Channels of the image.
    #: Whether it is over height and width of a tensor of four axes, and keeps them: LiteRT has
    #: kernels of its own for that.
    planar: bool

    @property
    def sums(self) -> NDArray[np.int64]:
        """All sums of the image that can occur."""
        return np.arange(self.count * INT8[0], self.count * INT8[-1] + 1, dtype=np.int64)

    @property
    def tensor_sums(self) -> NDArray[np.int64]:
        """The same sums, of the integers of the tensor."""
        return self.sums + self.count * (self.x.low - INT8[0])


def mean_requantization(mean: Mean, exactness: Exactness) -> Requantization:
    """Return how sums of an image become its means.

    Raises
    ------
    UnsupportedError
        If the library does not define means, or the machine cannot reproduce them.
    """
    x, y = mean.x, mean.y
    bias = -mean.count * x.zero
    if exactness == Exactness.BM1684X:
        raise UnsupportedError("bm1684x numerics do not define mean")
    if exactness.ort:
        scale = x.scale / (y.scale * np.float32(mean.count))
        return make_requantization(float(scale), Rounding.FLOAT32, y.zero, bias=bias)
    if exactness == Exactness.LITERT_XNNPACK:
        return _find(
            "XNNPACK",
            mean,
            _xnnpack(mean, np.float32(1) / np.float32(mean.count)),
            _candidates(mean, mean.count),
        )
    if exactness == Exactness.LITERT_OPT and mean.planar:
        return _optimized(mean)
    return _reference(mean)


def sum_requantization(total: Mean, exactness: Exactness) -> Requantization:
    """Return how sums of integers of an image become sums of what they mean.

    LiteRT's reference kernel reads int8 as uint8, so that its results are none: there they are
    those of uint8, and of int8 in TensorFlow Lite Micro. LiteRT's optimized kernel is of float32.

    Raises
    ------
    UnsupportedError
        If the library does not define such sums, or the machine cannot reproduce them.
    """
    if not exactness.litert or (exactness == Exactness.TFLM and total.x.unsigned):
        raise UnsupportedError(f"integer sums of {exactness} are not verified")
    if exactness == Exactness.LITERT_XNNPACK:
        wanted = _xnnpack(total, np.float32(1))
        return _find("XNNPACK", total, wanted, _candidates(total, 1))
    x, y = total.x, total.y
    if exactness in (Exactness.LITERT_REF, Exactness.TFLM):
        scale, bias = float(x.scale) / float(y.scale), -total.count * x.zero
        return make_requantization(scale, Rounding.TFLITE, y.zero, bias=bias)
    scale = x.scale / y.scale
    bias = np.float32(-x.zero_point) * scale * np.float32(total.count)
    sums = round_away(total.tensor_sums.astype(np.float32) * scale + bias).astype(np.int64)
    return _find("LiteRT", total, y.image(sums + y.zero_point), _candidates(total, 1))


def _reference(mean: Mean) -> Requantization:
    """Divide the multiplier by the count, with as many bits as are free, and round it down."""
    multiplier, shift = quantize_multiplier(float(mean.x.scale) / float(mean.y.scale))
    more = min(mean.count.bit_length() - 1, 32, 31 + shift)
    return Requantization(
        multiplier=np.array([(multiplier << more) // mean.count]),
        shift=np.array([shift - more]),
        bias=np.array([-mean.count * mean.x.zero], np.int32),
        rounding=Rounding.TFLITE,
        zero_point=mean.y.zero,
    )


def _optimized(mean: Mean) -> Requantization:
    """Scale the sum without its zero point, which is subtracted afterwards, rounded."""
    x, y = mean.x, mean.y
    scale = float(x.scale / (np.float32(mean.count) * y.scale))
    offset = y.zero_point - int(round_away(np.float32(x.zero_point) * x.scale / y.scale))
    multiplier, shift = quantize_multiplier(scale)
    scalar, vector = (
        y.image(
            ops.scale_accumulators(
                mean.tensor_sums, multiplier=multiplier, shift=shift, rounding=rounding
            )
            + offset
        )
        for rounding in (Rounding.TFLITE, Rounding.RUY)
    )
    vectors = 0 if x.unsigned else mean.channels // _VECTOR
    if vectors and mean.channels % _VECTOR and np.any(scalar != vector):
        raise UnsupportedError(
            f"LiteRT's vector code rounds the last {mean.channels % _VECTOR} channels differently"
        )
    rounding = Rounding.RUY if vectors else Rounding.TFLITE
    unsigned = mean.count * (x.low - INT8[0])
    zero_point = offset - (y.low - INT8[0])
    # A record's zero point is an int8; what is beyond goes through the bias if it can.
    low = min(max(zero_point, INT8[0]), INT8[-1])
    candidates = (
        make_requantization(
            scale, rounding, low - more, bias=unsigned + round((zero_point - low + more) / scale)
        )
        for more in range(min(9, low - INT8[0] + 1))
    )
    return _find("LiteRT", mean, vector if vectors else scalar, candidates)


def _xnnpack(mean: Mean, share: np.float32) -> NDArray[np.int8]:
    """Scale the sum in float32, add zero points in float32, round half to even."""
    x, y = mean.x, mean.y
    scale = share * (x.scale / y.scale)
    bias = np.float32(y.zero_point) - np.float32(mean.count * x.zero_point) * scale
    values = mean.tensor_sums.astype(np.float32) * scale + bias
    return y.image(np.rint(values).astype(np.int64))


def _candidates(mean: Mean, divisor: int) -> Iterator[Requantization]:
    scale = float(mean.x.scale) / float(mean.y.scale) / divisor
    for rounding in (Rounding.FLOAT32, Rounding.AWAY, Rounding.SINGLE):
        for more in (0, 1, -1):
            zero_point = mean.y.zero + more
            if zero_point in INT8:
                # Another parity of the zero point sends ties to the other side.
                bias = -mean.count * mean.x.zero - round(more / scale)
                yield make_requantization(scale, rounding, zero_point, bias=bias)


def _find(
    library: str,
    mean: Mean,
    wanted: NDArray[np.int8],
    candidates: Iterator[Requantization],
) -> Requantization:
    if mean.count > _LARGEST:
        raise UnsupportedError(f"a sum of {mean.count} elements has too many values to verify each")
    for candidate in candidates:
        if np.array_equal(ops.requantize_sums(mean.sums, candidate), wanted):
            return candidate
    raise UnsupportedError(f"no parameters give {library}'s results for every sum")
