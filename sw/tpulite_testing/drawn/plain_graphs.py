"""Random graphs of layers for tests of groups."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from tpulite.arch.numerics import Rounding
from tpulite.graph.layers import (
    Activation,
    Concat,
    Conv,
    DepthToSpace,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    Pad,
    Pool,
    Requantization,
)
from tpulite_testing.oracles.plain_layers import random_requantization

__all__ = ["GraphBuilder", "layer_graphs", "varied"]

_PLAIN = Requantization(multiplier=np.array([1 << 30]), shift=np.array([1]), rounding=Rounding.AWAY)


class GraphBuilder:
    """A network made layer by layer; images have the names of their layers."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.activations: dict[str, Activation] = {"x": Activation(shape)}
        self.layers: list[Layer] = []

    def conv(self, source: str, channels: int, kernel=3, *, name: str = "", **geometry) -> str:
        """Add a convolution with a square kernel, of which no two channels are alike."""
        depth = self.activations[source].shape[2]
        weight = np.ones((kernel, kernel, depth, channels), np.int8)
        weight.flat[:channels] = np.arange(channels) % 127 + 1
        return self._add(name, Conv, source, weight=weight, requantization=_PLAIN, **geometry)

    def depthwise(self, source: str, kernel=3, *, name: str = "", **geometry) -> str:
        """Add a depthwise convolution with a square kernel."""
        weight = np.ones((kernel, kernel, self.activations[source].shape[2]), np.int8)
        return self._add(name, Depthwise, source, weight=weight, requantization=_PLAIN, **geometry)

    def pool(self, source: str, window=(2, 2), *, name: str = "", **geometry) -> str:
        """Add a maximum."""
        return self._add(name, Pool, source, op="max", window=window, **geometry)

    def add(self, a: str, b: str, *, name: str = "") -> str:
        """Add a sum of two images."""
        return self._add(
            name, Elementwise, a, b, op="add", requantization=_PLAIN, zero_points=(0, 0)
        )

    def lut(self, source: str, *, name: str = "") -> str:
        """Add a table."""
        return self._add(name, Lut, source, table=np.zeros(256, np.int8))

    def depth_to_space(self, source: str, block: tuple[int, int], *, name: str = "") -> str:
        """Add what makes a block of pixels of each."""
        channels = self.activations[source].shape[2] // (block[0] * block[1])
        return self._add(name, DepthToSpace, source, block=block, channels=channels)

    def pad(self, source: str, padding: tuple[int, int, int, int], *, name: str = "") -> str:
        """Add a frame."""
        return self._add(name, Pad, source, padding=padding, value=0)

    def concat(self, *sources: str, axis: int, name: str = "") -> str:
        """Add a concatenation."""
        return self._add(name, Concat, *sources, axis=axis)

    def _add(self, name: str, kind: type[Layer], *sources: str, **fields) -> str:
        name = name or f"y{len(self.layers)}"
        layer = kind(name=name, inputs=sources, output=name, **fields)
        self.activations[name] = layer._infer(*(self.activations[source] for source in sources))
        self.layers.append(layer)
        return name

    def graph(self, *outputs: str) -> LayerGraph:
        """Return the network."""
        outputs = outputs or (self.layers[-1].output,)
        return LayerGraph("random", tuple(self.layers), self.activations, ("x",), outputs)


@st.composite
def layer_graphs(draw, *, most_layers: int = 6, most_rows: int = 24) -> LayerGraph:
    """Draw a network with branches, strides, dilations and any padding."""
    rows = st.integers(1, most_rows)
    builder = GraphBuilder((draw(rows), draw(st.integers(1, 8)), 16))
    names = ["x"]
    for _ in range(draw(st.integers(1, most_layers))):
        source = draw(st.sampled_from(names))
        height, width, _ = builder.activations[source].shape
        alike = [name for name in names if builder.activations[name] == builder.activations[source]]
        small = [name for name in names if builder.activations[name].shape == (1, 1, 16)]
        partner = draw(st.sampled_from(alike + small))
        kind = draw(st.sampled_from(["conv", "conv", "depthwise", "pool", "add", "lut", "pad"]))
        sizes = st.integers(1, 4)
        kernel, stride = draw(sizes), (draw(sizes), draw(sizes))
        dilation = draw(st.integers(1, 3))
        padding = tuple(draw(st.integers(0, 4)) for _ in range(4))
        reach = (kernel - 1) * dilation + 1
        fits = min(height + padding[0] + padding[2], width + padding[1] + padding[3]) >= reach
        if kind == "conv" and fits:
            geometry = {"stride": stride, "dilation": (dilation,) * 2, "padding": padding}
            names.append(builder.conv(source, 16, kernel, **geometry))
        elif kind == "depthwise" and fits:
            geometry = {"stride": stride, "dilation": (dilation,) * 2, "padding": padding}
            names.append(builder.depthwise(source, kernel, **geometry))
        elif kind == "pool":
            window = (draw(st.integers(1, height)), draw(st.integers(1, width)))
            names.append(builder.pool(source, window, stride=stride))
        elif kind == "add":
            names.append(builder.add(source, partner))
        elif kind == "pad":
            names.append(builder.pad(source, padding))
        else:
            names.append(builder.lut(source))
    outputs = draw(st.sets(st.sampled_from(names[1:]))) | {names[-1]}
    return builder.graph(*sorted(outputs))


def varied(layers: LayerGraph, seed: int = 0) -> LayerGraph:
    """Return a network with random weights, requantization of filters, and tables."""
    rng = np.random.default_rng(seed)

    def vary(layer: Layer) -> Layer:
        if isinstance(layer, Conv | Depthwise):
            weight = rng.integers(-128, 128, layer.weight.shape, np.int8)
            record = random_requantization(rng, weight.shape[-1], 50_000)
            return replace(layer, weight=weight, requantization=record)
        if isinstance(layer, Lut):
            return replace(layer, table=rng.permutation(256).astype(np.uint8).view(np.int8))
        return layer

    return replace(layers, layers=tuple(map(vary, layers.layers)))
