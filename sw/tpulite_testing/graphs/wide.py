"""Networks of LiteRT's int16x8: int16 activations and int8 weights."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tpulite_testing.files.tflite_builder import Builder

__all__ = ["convolutions_of_int16", "products_of_int16", "scale_of_int16"]

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


def scale_of_int16(seed: int, shape: Sequence[int], types: tuple[str, str]) -> bytes:
    """Return a TFLite file of QUANTIZE; some results are halves, some saturate.

    Parameters
    ----------
    seed : int
        Scales and zero points.
    shape : sequence of int
        Shape of the tensors.
    types : tuple of str
        Of input and output: int8 or int16.
    """
    rng = np.random.default_rng(seed)
    model = Builder(types[0])
    zero_points = [int(rng.integers(-128, 128)) if each == "int8" else 0 for each in types]
    around = {("int8", "int16"): -3, ("int16", "int8"): 7}.get(types, 0)
    exponent = around + rng.uniform(-5, 5)
    before = 2.0 ** float(rng.uniform(-9, -3))
    after = before * 2.0 ** float(exponent if seed % 2 else round(exponent))
    x = model.input(shape, before, zero_points[0])
    return model.build(model.unary("QUANTIZE", x, after, zero_points[1], dtype=types[1]))


def convolutions_of_int16(
    seed: int,
    shape: tuple[int, int],
    channels: Sequence[int],
    *,
    most: int = 7,
    ends: str = "int16",
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
    ends : str
        Type of input and output: of int8, QUANTIZE is before and behind the convolutions.
    """
    rng = np.random.default_rng(seed)
    model, scale = Builder("int16"), 2.0**-10
    model.dtype = ends
    x = model.input((1, *shape, channels[0]), scale, int(rng.integers(-9, 9)) * (ends == "int8"))
    if ends == "int8":
        model.dtype, scale = "int16", scale / float(rng.uniform(0.7, 200))
        x = model.unary("QUANTIZE", x, scale)
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
    if ends == "int8":
        zero_point = int(rng.integers(-128, 128))
        x = model.unary("QUANTIZE", x, 200 * scale, zero_point, dtype="int8")
    return model.build(x)
