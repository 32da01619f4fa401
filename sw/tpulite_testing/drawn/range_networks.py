"""Networks drawn at random, the same layers for any extents, and what a run computes."""

from dataclasses import replace

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import (
    Activation,
    Affine,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    Pool,
    Requantization,
)
from tpulite.program import Program
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.session import Session

__all__ = ["Builder", "draw_network", "resized", "results", "wanted"]


def int8(rng, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


class Builder:
    """Adds layers one after the other.

    Parameters
    ----------
    rng : Generator
        Draws weights.
    shape : tuple of int
        Height, width and channels of the input.
    """

    def __init__(self, rng, shape: tuple[int, int, int]) -> None:
        self.rng, self.layers = rng, []
        self.activations = {"x": Activation(shape)}
        self.inputs = ["x"]

    def input(self) -> str:
        """Add another input like the first one."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.activations[name] = self.activations["x"]
        return name

    def scaled(self, channels: int, depth: int) -> Requantization:
        """Draw how sums of so many products become int8."""
        return Requantization(
            multiplier=self.rng.integers(1 << 30, (1 << 31) - 1, channels),
            shift=np.full(channels, -6 - int(np.log2(depth) / 2)),
            bias=self.rng.integers(-500, 500, channels).astype(np.int32),
            rounding=Rounding.RUY,
            zero_point=int(self.rng.integers(-9, 9)),
        )

    def add(self, kind: type[Layer], *inputs: str, **fields) -> str:
        """Add any layer."""
        name = f"layer{len(self.layers)}"
        layer = kind(name=name, inputs=inputs, output=f"t{len(self.layers)}", **fields)
        self.activations[layer.output] = layer._infer(*(self.activations[i] for i in inputs))
        self.layers.append(layer)
        return layer.output

    def conv(self, x: str, features: int, kernel: int, stride: int = 1, **fields) -> str:
        """Add a convolution that keeps the extents but for its stride."""
        channels = self.activations[x].shape[2]
        fields = {"padding": (kernel // 2,) * 4, "stride": (stride, stride)} | fields
        return self.add(
            Conv,
            x,
            weight=int8(self.rng, kernel, kernel, channels, features),
            requantization=self.scaled(features, kernel * kernel * channels),
            input_zero_point=int(self.rng.integers(-9, 9)),
            **fields,
        )

    def depthwise(self, x: str, kernel: int, stride: int = 1, **fields) -> str:
        """Add a depthwise convolution that keeps the extents but for its stride."""
        channels = self.activations[x].shape[2]
        fields = {"padding": (kernel // 2,) * 4, "stride": (stride, stride)} | fields
        return self.add(
            Depthwise,
            x,
            weight=int8(self.rng, kernel, kernel, channels),
            requantization=self.scaled(channels, kernel * kernel),
            input_zero_point=int(self.rng.integers(-9, 9)),
            **fields,
        )

    def join(self, a: str, b: str, op: str = "add") -> str:
        """Add an elementwise layer."""
        requantization = Requantization(
            multiplier=np.array([1 << 30]), shift=np.array([-19 if op == "add" else -6])
        )
        fields = {"zero_points": (1, -2), "multipliers": (1 << 30, 1_234_567_890), "shifts": (1, 2)}
        return self.add(Elementwise, a, b, op=op, requantization=requantization, **fields)

    def pool(self, x: str, op: str, window: int, stride: int, pad: int = 0) -> str:
        """Add a pooling layer."""
        fields = {"window": (window, window), "stride": (stride, stride), "padding": (pad,) * 4}
        return self.add(Pool, x, op=op, **fields)

    def mean(self, x: str) -> str:
        """Add the mean of all pixels."""
        return self.add(Pool, x, op="average", window=self.activations[x].shape[:2])

    def lut(self, x: str) -> str:
        """Add a table."""
        return self.add(Lut, x, table=int8(self.rng, 256))

    def affine(self, x: str) -> str:
        """Add a factor for each channel."""
        channels = self.activations[x].shape[2]
        gain = self.rng.integers(-300, 300, channels).astype(np.int16)
        return self.add(Affine, x, gain=gain, requantization=self.scaled(channels, 4))

    def graph(self, *outputs: str) -> LayerGraph:
        """Return the network."""
        inputs = tuple(self.inputs)
        return LayerGraph("drawn", tuple(self.layers), self.activations, inputs, outputs)


def resized(graph: LayerGraph, height: int, width: int) -> LayerGraph:
    """Return the same layers for other extents; windows that are the whole tensor follow."""
    first = graph.inputs[0]
    images, layers = {}, []
    for name in graph.inputs:
        small = graph.activations[name].shape[:2] == (1, 1) != graph.activations[first].shape[:2]
        extents = (1, 1) if small else (height, width)
        images[name] = replace(
            graph.activations[name], shape=(*extents, graph.activations[name].shape[2])
        )
    for layer in graph.layers:
        source = images[layer.inputs[0]]
        if isinstance(layer, Pool) and layer.window == graph.activations[layer.inputs[0]].shape[:2]:
            layer = replace(layer, window=source.shape[:2])
        images[layer.output] = layer._infer(*(images[name] for name in layer.inputs))
        layers.append(layer)
    return replace(graph, layers=tuple(layers), activations=images)


def draw_network(seed: int) -> LayerGraph:
    """Draw a network of up to a dozen layers, for inputs of about 24 x 24."""
    rng = np.random.default_rng(seed)
    net = Builder(rng, (24, 24, int(rng.choice([1, 3, 8, 16, 20]))))
    x = net.conv("x", int(rng.choice([8, 16, 24, 40])), int(rng.choice([1, 3, 5])), 1)
    alike = [x]  # tensors of the same extents
    for _ in range(int(rng.integers(2, 9))):
        kind = rng.choice(["conv", "dw", "dw", "add", "mul", "pool", "lut", "affine", "down"])
        x = alike[-1]
        channels = net.activations[x].shape[2]
        match kind:
            case "conv":
                kernel = int(rng.choice([1, 1, 3]))
                alike.append(net.conv(x, int(rng.choice([8, channels, 2 * channels])), kernel))
            case "dw":
                alike.append(net.depthwise(x, int(rng.choice([3, 3, 5]))))
            case "add" | "mul":
                same = [y for y in alike if net.activations[y].shape[2] == channels]
                alike.append(net.join(x, str(rng.choice(same)), str(kind)))
            case "pool":
                op = str(rng.choice(["max", "average"]))
                alike.append(net.pool(x, op, 3, 1, 1))
            case "lut":
                alike.append(net.lut(x))
            case "affine":
                alike.append(net.affine(x))
            case "down" if net.activations[x].shape[0] > 8:
                way = int(rng.integers(3))
                if way == 0:
                    alike = [net.conv(x, 2 * channels, 3, 2)]
                elif way == 1:
                    alike = [net.depthwise(x, 3, 2)]
                else:
                    alike = [net.pool(x, "max", 2, 2)]
    x = alike[-1]
    if rng.random() < 0.5:
        x = net.conv(net.mean(x), 10, 1)
    return net.graph(net.lut(x) if x == "t0" else x)


def results(program: Program, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a program on the golden machine, which also looks for races."""
    device = GoldenDevice(program.config, dram_bytes=1 << 24)
    outcome = Session(program, device).run(inputs)
    assert outcome.fault is None
    return dict(outcome.outputs)


def wanted(graph: LayerGraph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute a batch image by image with the golden layers."""
    batch = len(inputs[graph.inputs[0]])
    images = [run_layers(graph, {n: x[i] for n, x in inputs.items()}) for i in range(batch)]
    return {name: np.stack([image[name] for image in images]) for name in graph.outputs}


def config_name(config: Config) -> str:
    """Name a machine in the names of tests."""
    return f"{config.array_size}x{config.ub_rows}"
