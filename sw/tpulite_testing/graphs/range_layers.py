"""Networks of one layer whose extents are without meaning."""

import numpy as np

from tpulite.graph.layers import Activation, Affine, Conv, LayerGraph, Pool, Requantization

__all__ = ["HALF", "affine", "conv", "pool", "single"]

HALF = Requantization(multiplier=np.array([1 << 30]), shift=np.array([0]))
"""Half of a sum."""


def single(layer, inputs: Activation, output: Activation) -> LayerGraph:
    """Make a network of one layer of one image."""
    return LayerGraph("dynamic", (layer,), {"x": inputs, "y": output}, ("x",), ("y",))


def pool(window: tuple[int, int], op: str = "max", **fields) -> LayerGraph:
    """Make a pooling layer of 64 channels with padding that keeps the extents."""
    padding = (window[0] // 2, window[1] // 2) * 2
    layer = Pool(
        name="pool",
        inputs=("x",),
        output="y",
        op=op,
        window=window,
        **{"padding": padding} | fields,
    )
    image = Activation((window[0] + 8, window[1] + 8, 64))
    return single(layer, image, layer._infer(image))


def conv(kernel: tuple[int, int], channels: int, features: int, **fields) -> LayerGraph:
    """Make a convolution with padding that keeps the extents; no two channels are alike."""
    weight = np.ones((*kernel, channels, features), np.int8)
    weight.flat[:features] = np.arange(features) % 127 + 1
    layer = Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=weight,
        **{"requantization": HALF, "padding": (kernel[0] // 2, kernel[1] // 2) * 2} | fields,
    )
    image = Activation((kernel[0] + 8, kernel[1] + 8, channels))
    return single(layer, image, layer._infer(image))


def affine(channels: int) -> LayerGraph:
    """Make a layer that halves all channels."""
    layer = Affine(
        name="bn",
        inputs=("x",),
        output="y",
        gain=np.ones(channels, np.int16),
        requantization=HALF,
    )
    image = Activation((1, 1, channels))
    return single(layer, image, image)
