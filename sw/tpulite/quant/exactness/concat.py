"""Concatenation of tensors of different scales.

TFLite requantizes uint8 alone, in float32; ONNX Runtime dequantizes and quantizes. Both formulas
were found by comparison with the libraries' results.
"""

import numpy as np
from numpy.typing import NDArray

from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import function_table
from tpulite.quant.exactness.scaling import round_away
from tpulite.quant.tensors import Quantized, UnsupportedError


def concat_table(x: Quantized, y: Quantized, exactness: Exactness) -> NDArray[np.int8]:
    """Return the table that gives an input of a concatenation the scale of its output.

    Raises
    ------
    UnsupportedError
        If the library demands equal scales.
    """
    if x.unsigned != y.unsigned:
        raise UnsupportedError("its tensors are int8 and uint8")
    if exactness.ort:
        return function_table("requantize", x, y, {}, exactness, 0)
    if not x.unsigned or not exactness.litert:
        raise UnsupportedError(f"{exactness} does not requantize in concat")
    scale = x.scale * (np.float32(1) / y.scale)
    bias = np.float32(-x.zero_point) * scale
    scaled = round_away(x.integers().astype(np.float32) * scale + bias)
    return y.image(scaled.astype(np.int64) + y.zero_point)
