"""Small networks that are compiled for ranges of shapes."""

import numpy as np

from tpulite.graph.layers import Conv, LayerGraph
from tpulite_testing.drawn.range_networks import Builder

__all__ = ["keywords", "resnet8"]


def resnet8() -> LayerGraph:
    """Make the layers of ResNet-8, with drawn weights."""
    net = Builder(np.random.default_rng(1), (32, 32, 3))
    x = net.conv("x", 16, 3)
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.conv(net.conv(x, channels, 3, stride), channels, 3)
        x = net.join(net.conv(x, channels, 1, stride) if stride == 2 else x, y)
    return net.graph(net.conv(net.mean(x), 10, 1))


def keywords() -> LayerGraph:
    """Make the layers of the keyword spotter DS-CNN, with drawn weights."""
    net = Builder(np.random.default_rng(2), (49, 10, 1))
    weight = net.rng.integers(-128, 128, (10, 4, 1, 64)).astype(np.int8)
    fields = {"requantization": net.scaled(64, 40), "stride": (2, 2), "padding": (4, 1, 5, 1)}
    x = net.add(Conv, "x", weight=weight, **fields)
    for _ in range(4):
        x = net.conv(net.depthwise(x, 3), 64, 1)
    return net.graph(net.conv(net.mean(x), 12, 1))
