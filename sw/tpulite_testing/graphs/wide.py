"""Networks of LiteRT's int16x8: int16 activations and int8 weights."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tpulite_testing.files.tflite_builder import Builder

__all__ = ["convolutions_of_int16", "products_of_int16"]

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


def convolutions_of_int16(
    seed: int, shape: tuple[int, int], channels: Sequence[int], *, most: int = 7
) -> bytes:
    """Return a TFLite file of CONV_2D, one after the other, of any geometry.

    Parameters
    ----------
    seed : int
        Kernels, strides, dilations and padding, and what :func:`products_of_int16` draws.
    shape : tuple of int
        Height and width of the input.
    channels : sequence of int
        Of each activation.
    most : int
        Most rows and columns of a kernel.
    """
    rng = np.random.default_rng(seed)
    model, scale = Builder("int16"), 2.0**-10
    x = model.input((1, *shape, channels[0]), scale)
    for k, n in pairwise(channels):
        kernel = [int(extent) for extent in rng.choice(range(1, most + 1), 2)]
        stride, dilation = (tuple(map(int, rng.choice([1, 1, 2, 3], 2))) for _ in range(2))
        if max(stride) > 1:  # of LiteRT, one of both is 1
            dilation = 1, 1
        reach = [(extent - 1) * step + 1 for extent, step in zip(kernel, dilation, strict=True)]
        fits = all(a <= b for a, b in zip(reach, model.shape(x)[1:3], strict=True))
        taps = k * kernel[0] * kernel[1]
        largest = int(min(127, (2**31 - 2**25) / 2**15 / taps))
        weight = rng.integers(-largest, largest + 1, (n, *kernel, k)).astype(np.int8)
        step = scale * _WEIGHT_SCALE * largest * (taps / 2) ** 0.5 * float(rng.uniform(0.2, 1.5))
        x = model.conv(
            x,
            weight,
            rng.integers(-(1 << 24), 1 << 24, n),
            weight_scale=_WEIGHT_SCALE * rng.uniform(0.5, 1.5, n if rng.random() < 0.5 else 1),
            scale=step,
            stride=stride,
            dilation=dilation,
            padding="VALID" if fits and rng.random() < 0.5 else "SAME",
            activation=str(rng.choice(["NONE", "RELU", "RELU6"])),
        )
        scale = step
    return model.build(x)
