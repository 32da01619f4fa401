"""Random graphs of everything that the passes look at."""

import numpy as np

from tpulite.graph.graph import Graph
from tpulite_testing.graphs.float_graphs import GraphBuilder

__all__ = ["random_feeds", "random_graph"]

MEANINGS = ((0.5, -128), (0.5, 3), (0.25, 3))
WINDOW = {"stride": (1, 1), "padding": (0, 0, 0, 0), "activation": "none"}


class _Chain:
    """Adds random nodes that read recent tensors of one image format."""

    def __init__(self, rng: np.random.Generator, real: bool) -> None:
        self.rng, self.real = rng, real
        self.b = GraphBuilder()
        self.images = [self.b.input("x", (1, 6, 7, 2), self.meaning())]

    def meaning(self):
        return None if self.real else MEANINGS[self.rng.integers(len(MEANINGS))]

    def add(self, op, inputs, shape, meaning, /, **attributes) -> None:
        name = f"t{len(self.b.nodes)}"
        self.images.append(self.b.node(op, inputs, name, shape, meaning, **attributes))

    def weights(self, shape) -> tuple[str, str]:
        name = f"w{len(self.b.nodes)}"
        if self.real:
            w = self.b.constant(name, self.rng.normal(size=shape).astype(np.float32))
            return w, self.b.constant(f"{name}.b", self.rng.normal(size=2).astype(np.float32))
        w = self.b.constant(name, self.rng.integers(-127, 128, shape).astype(np.int8), (0.02, 0))
        return w, self.b.constant(f"{name}.b", self.rng.integers(-99, 99, 2).astype(np.int32))

    def step(self) -> None:
        x = self.images[-1 - self.rng.integers(min(3, len(self.images)))]
        tensor = self.b.tensors[x]
        batch, height, width, channels = shape = tensor.shape
        q = tensor.quantization
        alike = None if q is None else (float(q.scale[0]), int(q.zero_point[0]))
        out = alike if self.rng.random() < 0.7 else self.meaning()
        kernel = min(3, height), min(3, width)
        inner = batch, height - kernel[0] + 1, width - kernel[1] + 1, channels
        kind = self.rng.choice(
            ["conv", "depthwise", "pool", "pad", "activation", "reshape", "concat", "add", "copy"]
            + ["batch_norm", "clip"] * self.real
        )
        if kind == "conv":
            inputs = [x, *self.weights((2, *kernel, channels))]
            self.add("conv", inputs, inner, out, dilation=(1, 1), **WINDOW)
        elif kind == "depthwise":
            inputs = [x, *self.weights((*kernel, channels))]
            self.add("depthwise", inputs, inner, out, dilation=(1, 1), multiplier=1, **WINDOW)
        elif kind == "pool":
            average = self.rng.random() < 0.5
            extra = {"count_include_pad": False} if average else {}
            op = "average_pool" if average else "max_pool"
            self.add(op, [x], inner, alike, window=kernel, **WINDOW, **extra)
        elif kind == "pad":
            top, left, bottom, right = padding = tuple(self.rng.integers(0, 3, 4).tolist())
            values = [0.0, -np.inf] if alike is None else [alike[1], -128]
            grown = batch, height + top + bottom, width + left + right, channels
            self.add("pad", [x], grown, alike, padding=padding, value=self.rng.choice(values))
        elif kind == "activation":
            self.add(self.rng.choice(["relu", "relu6", "relu_n1_1"]), [x], shape, out)
        elif kind == "clip":
            low, high = [(0, np.inf), (0, 6), (-1, 1), (0, 5)][self.rng.integers(4)]
            self.add("clip", [x], shape, out, low=low, high=high)
        elif kind == "reshape":
            turned = (batch, width, height, channels) if self.rng.random() < 0.6 else shape
            self.add("reshape", [x], turned, alike, shape=turned)
        elif kind == "concat":
            self.add("concat", [x], shape, alike, axis=3, activation="none")
        elif kind == "add":
            others = [name for name in self.images if self.b.tensors[name].shape == shape]
            self.add("add", [x, self.rng.choice(others)], shape, out, activation="none")
        elif kind == "batch_norm":
            parameters = [
                self.b.constant(f"{part}{len(self.b.nodes)}", values.astype(np.float32))
                for part, values in zip(
                    ("gamma", "beta", "mean", "variance"),
                    [*self.rng.normal(size=(3, 2)), self.rng.uniform(0.1, 2, 2)],
                    strict=True,
                )
            ]
            self.add("batch_norm", [x, *parameters], shape, None, epsilon=1e-3)
        elif self.real:
            self.add("identity", [x], shape, None)
        else:
            self.add("requantize", [x], shape, out)


def random_graph(seed: int, *, real: bool, steps: int = 12) -> Graph:
    """Return a float graph, or one of int8; its outputs are its last tensor and random others."""
    rng = np.random.default_rng(seed)
    chain = _Chain(rng, real)
    for _ in range(steps):
        chain.step()
    last, *others = reversed(chain.images)
    extra = [name for name in others if rng.random() < 0.15]
    return chain.b.build(last, *extra)


def random_feeds(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Return random inputs."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(size=graph.tensors[name].shape).astype(np.float32)
        if graph.tensors[name].dtype == "float32"
        else rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }
