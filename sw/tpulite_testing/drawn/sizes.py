"""Single layers of the sizes that networks have, for machines of all sizes."""

import math

import numpy as np

from tpulite.configs import named_config
from tpulite.graph.layers import (
    Activation,
    Affine,
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    Pad,
    Pool,
)
from tpulite_testing.drawn.choices import Choices
from tpulite_testing.drawn.compilations import Compilation, random_options
from tpulite_testing.oracles.plain_layers import random_requantization

__all__ = ["random_sized_layer"]

_MOST_BYTES, _MOST_MACS = 250_000, 60_000_000

_EXTENTS = (1, 4, 7, 8, 12, 14, 16, 20, 28, 32, 40, 56, 64, 96, 112)
_CHANNELS = (1, 3, 4, 8, 10, 16, 24, 32, 40, 48, 64, 96, 128, 160, 192, 256, 320, 512)
_MACHINES = (
    *("16x16", "16x16", "16x16", "16x16", "8x8", "4x4", "32x32"),
    *("16x16,ub_rows=1024", "16x16,ub_rows=256", "8x8,ub_rows=512", "4x4,ub_rows=1024"),
    *("16x16,acc_rows=64", "16x16,vector_lanes=1,requant_lanes=2", "32x32,ub_rows=1024"),
)
_KINDS = (
    *("conv", "conv", "conv", "pointwise", "pointwise", "pointwise", "depthwise", "depthwise"),
    *("dense", "add", "mul", "lut", "affine", "max", "average", "pad", "concat"),
)


def random_sized_layer(choices: Choices) -> Compilation:
    """Draw a layer, a machine and options; every other time the options are the default ones."""
    drawer = _Drawer(choices)
    graph = drawer.graph(choices.pick(_KINDS))
    options = random_options(choices)
    default = choices.chance(50)
    config = named_config(choices.pick(_MACHINES))
    return Compilation(graph, config, type(options)() if default else options)


class _Drawer:
    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.rng = np.random.default_rng(choices.integer(0, 1 << 31))

    def graph(self, kind: str) -> LayerGraph:
        """Draw the layer, with images of its inputs as large as allowed."""
        while True:
            shape = self.shape(kind)
            count = {"add": 2, "mul": 2, "concat": 2}.get(kind, 1)
            shapes = [shape] * count
            if kind == "mul" and self.choices.chance(50):
                shapes[1] = (1, 1, shape[2])
            names = tuple(f"x{i}" for i in range(count))
            images = {name: Activation(each) for name, each in zip(names, shapes, strict=True)}
            layer = getattr(self, f"_{kind}")(shape, name=kind, inputs=names, output="y")
            images["y"] = layer._infer(*images.values())
            small = all(math.prod(image.shape) <= _MOST_BYTES for image in images.values())
            graph = LayerGraph(kind, (layer,), images, names, ("y",))
            if small and sum(graph.macs().values()) <= _MOST_MACS:
                return graph

    def shape(self, kind: str) -> tuple[int, int, int]:
        """Draw the shape of an input."""
        choices = self.choices
        height = 1 if kind == "dense" else choices.pick(_EXTENTS)
        width = height if kind == "dense" or choices.chance(75) else choices.pick(_EXTENTS)
        return height, width, choices.pick(_CHANNELS)

    def _weight(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-127, 128, shape).astype(np.int8)

    def _conv(self, shape: tuple[int, int, int], **names: str | tuple[str, ...]) -> Layer:
        kernel = self.choices.pick((3, 3, 3, 5, 7, 2, 1))
        kernel = min(kernel, *shape[:2])
        stride = self.choices.pick((1, 1, 1, 2, kernel))
        padding = kernel // 2 if self.choices.chance(70) else 0
        return self._product(shape, kernel, stride, padding, names)

    def _pointwise(self, shape: tuple[int, int, int], **names: str | tuple[str, ...]) -> Layer:
        return self._product(shape, 1, self.choices.pick((1, 1, 1, 2)), 0, names)

    def _dense(self, shape: tuple[int, int, int], **names: str | tuple[str, ...]) -> Layer:
        return self._product(shape, 1, 1, 0, names)

    def _product(self, shape, kernel: int, stride: int, padding: int, names) -> Layer:
        features = self.choices.pick(_CHANNELS)
        return Conv(
            **names,
            weight=self._weight(kernel, kernel, shape[2], features),
            requantization=random_requantization(self.rng, features, 4000),
            input_zero_point=self.choices.pick((0, -128, 5)),
            stride=(stride, stride),
            padding=(padding,) * 4,
        )

    def _depthwise(self, shape: tuple[int, int, int], **names) -> Layer:
        kernel = min(self.choices.pick((3, 3, 3, 5, 7)), *shape[:2])
        stride = self.choices.pick((1, 1, 2))
        return Depthwise(
            **names,
            weight=self._weight(kernel, kernel, shape[2]),
            requantization=random_requantization(self.rng, shape[2], 4000),
            input_zero_point=self.choices.pick((0, -128, 5)),
            stride=(stride, stride),
            padding=(kernel // 2,) * 4,
        )

    def _add(self, shape: tuple[int, int, int], **names) -> Layer:
        return self._elementwise("add", names)

    def _mul(self, shape: tuple[int, int, int], **names) -> Layer:
        return self._elementwise("mul", names)

    def _elementwise(self, op: str, names) -> Layer:
        return Elementwise(
            **names,
            op=op,
            requantization=random_requantization(self.rng, 1, 1 << 20 if op == "add" else 4000),
            zero_points=(3, -7),
            multipliers=(0, 0) if op == "mul" else (1 << 30, 3 << 29),
            shifts=(0, 0) if op == "mul" else (0, 1),
        )

    def _lut(self, shape: tuple[int, int, int], **names) -> Layer:
        return Lut(**names, table=self._weight(256))

    def _affine(self, shape: tuple[int, int, int], **names) -> Layer:
        gain = self.rng.integers(-(2**12), 2**12, shape[2]).astype(np.int16)
        scale = random_requantization(self.rng, shape[2], 1 << 18)
        return Affine(**names, gain=gain, requantization=scale)

    def _max(self, shape: tuple[int, int, int], **names) -> Layer:
        return self._pool("max", shape, names)

    def _average(self, shape: tuple[int, int, int], **names) -> Layer:
        return self._pool("average", shape, names)

    def _pool(self, op: str, shape: tuple[int, int, int], names) -> Layer:
        window = shape[:2] if self.choices.chance(25) else (self.choices.pick((2, 3)),) * 2
        window = min(window[0], shape[0]), min(window[1], shape[1])
        stride = self.choices.pick((1, 2))
        return Pool(**names, op=op, window=window, stride=(stride, stride))

    def _pad(self, shape: tuple[int, int, int], **names) -> Layer:
        after = self.choices.pick((1, 2, 3))
        return Pad(**names, padding=(self.choices.pick((0, 1, 2)), 1, after, after), value=3)

    def _concat(self, shape: tuple[int, int, int], **names) -> Layer:
        return Concat(**names, axis=self.choices.pick((2, 2, 2, 0, 1)))
