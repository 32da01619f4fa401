"""Networks of layers that convolve, look at single channels, or move them, drawn by a seed."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from tpulite.graph.layers import (
    Activation,
    Affine,
    Conv,
    Depthwise,
    Layer,
    LayerGraph,
    Lut,
    Pick,
    Pool,
    Requantization,
)
from tpulite.graph.requantization import IDENTITY
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.oracles.plain_layers import random_requantization

__all__ = ["LayerNetwork"]


class LayerNetwork:
    """A network that grows from one input, ``x``; methods return the activation that they add.

    Parameters
    ----------
    seed : int
        Of its weights and choices.
    channels : int
        Channels of the input.
    size : int
        Its height and width.
    """

    def __init__(self, seed: int, channels: int, size: int = 5) -> None:
        self.choices, self.rng = Seeded(seed), np.random.default_rng((seed, 3))
        self.layers: list[Layer] = []
        self.images = {"x": Activation((size, size, channels))}

    def add(self, kind: type[Layer], *sources: str, **fields: Any) -> str:
        """Add a layer of any kind."""
        name = f"{kind.__name__}{len(self.layers)}"
        layer = kind(name=name, inputs=sources, output=name, **fields)
        self.images[name] = layer._infer(*(self.images[x] for x in sources))
        self.layers.append(layer)
        return name

    def count(self, x: str) -> int:
        """Return the channels of an activation."""
        return self.images[x].shape[2]

    def products(self, x: str, outputs: int, kernel: int = 3, **geometry: Any) -> str:
        """Add a convolution, padded to keep sizes; a depthwise one if there are no outputs."""
        count, padding = self.count(x), (kernel // 2,) * 4
        shape = (kernel, kernel, count, outputs) if outputs else (kernel, kernel, count)
        fields = {
            "weight": self.rng.integers(-127, 128, shape, np.int8),
            "requantization": self._record(outputs or count),
            "input_zero_point": int(self.rng.integers(-9, 9)),
            "weight_zero_point": int(self.rng.integers(-3, 3)),
            "padding": padding,
            **geometry,
        }
        return self.add(Conv if outputs else Depthwise, x, **fields)

    def by_channel(self, x: str) -> str:
        """Add a layer of which each channel depends on the same one of its input."""
        kind = self.choices.integer(0, 3)
        if kind == 0:
            return self.products(x, 0)
        if kind == 1:
            gain = self.rng.integers(-99, 99, self.count(x)).astype(np.int16)
            return self.add(Affine, x, gain=gain, requantization=self._record(self.count(x)))
        if kind == 2:
            return self.add(Lut, x, table=self.rng.integers(-128, 128, 256).astype(np.int8))
        return self.add(Pool, x, op="max", window=(2, 2), padding=(1, 0, 0, 1))

    def move(self, x: str, order: Iterable[int], *, product: bool = False) -> str:
        """Move channels, perhaps by a product as importers write it."""
        order = tuple(order)
        if not product:
            height, width, _ = self.images[x].shape
            axes = {"rows": tuple(range(height)), "columns": tuple(range(width))}
            return self.add(Pick, x, **axes, channels=order)
        weight = np.zeros((1, 1, self.count(x), len(order)), np.int8)
        weight[0, 0, order, np.arange(len(order))] = 1
        return self.add(Conv, x, weight=weight, requantization=IDENTITY)

    def graph(self, *outputs: str) -> LayerGraph:
        """Return the network with these results."""
        return LayerGraph("net", tuple(self.layers), self.images, ("x",), outputs)

    def _record(self, channels: int) -> Requantization:
        return random_requantization(self.rng, channels, 3_000)
