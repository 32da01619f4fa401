"""Networks of LiteRT's int16x8: int16 activations and int8 weights."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tpulite_testing.files.tflite_builder import Builder

__all__ = ["products_of_int16"]

_WEIGHT_SCALE = 0.01


def products_of_int16(
    seed: int,
    shape: Sequence[int],
    sizes: Sequence[int],
    *,
    bias_dtype: type = np.int64,
    largest: int = 127,
) -> bytes:
    """Return a TFLite file of layers that multiply each vector of an activation by a matrix.

    Parameters
    ----------
    seed : int
        Scales of weights are one or one for each output, activations RELU, RELU6 or none, biases
        there or not. Results use their range, and some saturate.
    shape : sequence of int
        Shape of the activation without its channels: CONV_2D of [1, height, width],
        FULLY_CONNECTED of [rows].
    sizes : sequence of int
        Channels of each activation.
    bias_dtype : type
        Of biases; LiteRT's are int64.
    largest : int
        Largest weight.
    """
    rng = np.random.default_rng(seed)
    model, scale = Builder("int16"), 2.0**-10
    model.bias_dtype = bias_dtype
    x = model.input((*shape, sizes[0]), scale)
    for k, n in pairwise(sizes):
        weight = rng.integers(-largest, largest + 1, (n, k)).astype(np.int8)
        scales = _WEIGHT_SCALE * rng.uniform(0.5, 1.5, n if rng.random() < 0.5 else 1)
        bias = rng.integers(-(1 << 24), 1 << 24, n)
        if len(shape) == 1 and rng.random() < 0.2:
            bias = None  # CONV_2D must have one
        step = scale * _WEIGHT_SCALE * largest * (k / 2) ** 0.5 * float(rng.uniform(0.2, 1.5))
        options = {"weight_scale": scales, "scale": step}
        activation = str(rng.choice(["NONE", "RELU", "RELU6"]))
        if len(shape) == 1:
            x = model.dense(x, weight, bias, activation=activation, **options)
        else:
            x = model.conv(x, weight[:, None, None], bias, activation=activation, **options)
        scale = step
    return model.build(x)
