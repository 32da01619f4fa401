"""Tables of XNNPACK, in integers of the tensors, not yet clamped.

The multipliers of leaky ReLU and their limits are those of XNNPACK's src/microparams-init.c
(``xnn_init_qs8_lrelu_scalar_params``); the rest was found by comparison. What XNNPACK refuses,
LiteRT computes itself.
"""

import numpy as np

from tpulite.quant.exactness.litert import Integers
from tpulite.quant.exactness.near_halves import check_halves
from tpulite.quant.exactness.real import real_function, sigmoid_once_rounded
from tpulite.quant.tensors import Quantized


def xnnpack_requantize(x: Quantized, y: Quantized) -> Integers | None:
    """Multiply by a number with 8 fractional bits, half up; None if XNNPACK refuses."""
    scale = x.scale / y.scale
    if x.unsigned != y.unsigned or not 2.0**-8 <= scale <= 2.0**7:
        return None
    return _fixed_point(x, y, _multiplier(scale))


def xnnpack_leaky_relu(x: Quantized, y: Quantized, alpha: float) -> Integers | None:
    """Do the same with another multiplier below zero; None if XNNPACK refuses."""
    scale = x.scale / y.scale
    negative = scale * np.float32(alpha)
    if not 2.0**-8 <= scale <= 2.0**7 or not 2.0**-8 <= abs(negative) <= 2.0**7:
        return None
    values = x.integers()
    return np.where(
        values >= x.zero_point,
        _fixed_point(x, y, _multiplier(scale)),
        _fixed_point(x, y, _multiplier(negative)),
    )


def xnnpack_lookup(op: str, x: Quantized, y: Quantized) -> Integers:
    """Tabulate in float32; the zero point is added before rounding half to even."""
    real = (x.integers() - x.zero_point).astype(np.float32) * x.scale
    function = sigmoid_once_rounded if op == "sigmoid" else real_function(op, {})
    scaled = function(real) * (np.float32(1) / y.scale)
    # The sum with the zero point is rounded to 24 bits, too, of which up to 9 are whole steps.
    error = np.abs(scaled).astype(np.float64) * 2.0**-22 + 2.0**-15
    check_halves(op, real, scaled, error, y)
    return np.rint(scaled + np.float32(y.zero_point)).astype(np.int64)


def _multiplier(scale: np.float32) -> int:
    return int(np.rint(np.float32(256) * scale))


def _fixed_point(x: Quantized, y: Quantized, multiplier: int) -> Integers:
    values = x.integers() - x.zero_point
    return (values * multiplier + (y.zero_point << 8) + 128) >> 8
