"""Layers, ranges and shapes drawn at random, and what a program does byte by byte."""

from dataclasses import dataclass, replace

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.arch.numerics import Rounding
from tpulite.compiler.bind import ShapeRange
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

__all__ = ["EVERY_KIND", "KINDS", "Case", "bytes_moved", "draw_case", "draw_inputs", "expected"]

KINDS = ("affine", "elementwise", "lut", "pool", "conv")
EVERY_KIND = (*KINDS, "depthwise", "multiplier")
"""What `draw_case` draws; a multiplier is a depthwise layer of several outputs a channel."""

_CHANNELS = (1, 3, 5, 8, 16, 19, 40, 70)


@dataclass(frozen=True)
class Case:
    """A layer that can have many shapes."""

    layer: Layer  #: The layer, of ``x`` (and ``z``), that computes ``y``.
    #: Of input and output.
    channels: int
    features: int
    smallest: tuple[int, int] = (1, 1)  #: Height and width for which there is an output.
    unsigned: frozenset[str] = frozenset()  #: Images that the host sees as uint8.
    broadcast: bool = False  #: Whether ``z`` has one pixel.

    def graph(self, height: int, width: int) -> LayerGraph:
        """Return a network of the layer for one shape."""
        layer = self.layer
        images = {"x": Activation((height, width, self.channels))}
        if "z" in layer.inputs:
            pixels = (1, 1) if self.broadcast else (height, width)
            images["z"] = Activation((*pixels, self.channels))
        outputs, dtype = (height, width), "int8"
        if isinstance(layer, Pool):
            outputs = _outputs(layer, (height, width), layer.window, (1, 1))
        if isinstance(layer, Conv | Depthwise):
            outputs = _outputs(layer, (height, width), layer.weight.shape, layer.dilation)
            dtype = "int8" if layer.requantization else "int32"
        images["y"] = Activation((*outputs, self.features), dtype)
        return LayerGraph(
            "dynamic", (layer,), images, tuple(dict.fromkeys(layer.inputs)), ("y",), {},
            self.unsigned,
        )  # fmt: skip

    def range(self, batch: int, height: int, width: int) -> ShapeRange:
        """Return the range of all shapes up to one."""
        top, left = self.smallest
        return ShapeRange(
            (1, batch),
            (top, max(top, height)),
            (left, max(left, width)),
            (self.channels, self.channels),
        )

    def first(self, channels: int) -> "Case":
        """Return an affine layer's first channels."""
        layer = self.layer
        assert isinstance(layer, Affine)

        def part(array: np.ndarray) -> np.ndarray:
            return array[:channels] if len(array) > 1 else array

        old = layer.requantization
        requantization = replace(
            old, multiplier=part(old.multiplier), shift=part(old.shift), bias=part(old.bias)
        )
        layer = replace(layer, gain=layer.gain[:channels], requantization=requantization)
        return replace(self, layer=layer, channels=channels, features=channels)


def _outputs(layer, shape, window, dilation) -> tuple[int, ...]:
    return tuple(
        (shape[i] + layer.padding[i] + layer.padding[i + 2] - (window[i] - 1) * dilation[i] - 1)
        // layer.stride[i]
        + 1
        for i in (0, 1)
    )


def requantization(rng, channels: int, scale: float = 1) -> Requantization:
    """Draw a requantization after which sums of about ``scale`` * 100 are int8."""
    count = 1 if rng.random() < 0.3 else channels
    exponent = int(np.log2(scale))
    rules = (Rounding.TFLITE, Rounding.RUY, Rounding.SINGLE, Rounding.AWAY)
    return Requantization(
        multiplier=rng.integers(1 << 30, (1 << 31) - 1, count),
        shift=-rng.integers(1, 6, count) - exponent,
        rounding=rules[rng.integers(len(rules))],
        bias=rng.integers(-500, 500, count).astype(np.int32),
        zero_point=int(rng.integers(-20, 20)),
    )


def int8(rng, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def draw_case(rng, kind: str) -> Case:
    """Draw a layer."""
    channels = int(rng.choice(_CHANNELS))
    common = {"name": "layer", "inputs": ("x",), "output": "y"}
    unsigned = frozenset(name for name in "xy" if rng.random() < 0.2)
    match kind:
        case "affine":
            gain = rng.integers(-300, 300, channels).astype(np.int16)
            layer = Affine(**common, gain=gain, requantization=requantization(rng, channels))
            return Case(layer, channels, channels, unsigned=unsigned)
        case "lut":
            layer = Lut(**common, table=int8(rng, 256))
            return Case(layer, channels, channels, unsigned=unsigned)
        case "elementwise":
            layer = Elementwise(
                **common | {"inputs": ("x", "x" if rng.random() < 0.1 else "z")},
                op=str(rng.choice(["add", "sub", "mul"])),
                requantization=requantization(rng, 1),
                zero_points=(int(rng.integers(-9, 9)), 3),
                multipliers=(1 << 30, (1 << 30) + 77),
                shifts=(1, int(rng.integers(9))),
            )
            broadcast = "z" in layer.inputs and rng.random() < 0.3
            return Case(layer, channels, channels, (1, 1), unsigned, broadcast)
        case "pool":
            return _draw_pool(rng, channels, common, unsigned)
        case "depthwise":
            return _draw_depthwise(rng, channels, common)
        case "multiplier":
            return _draw_multiplier(rng, common)
    return _draw_conv(rng, channels, common)


def _draw_pool(rng, channels: int, common: dict, unsigned: frozenset[str]) -> Case:
    window = tuple(int(v) for v in rng.integers(1, 6, 2))
    padding = tuple(int(rng.integers(window[i % 2])) for i in range(4))
    op = str(rng.choice(["max", "average", "sum"]))
    values: dict = {"low": -100, "high": 90}
    if op == "sum":
        values = {"requantization": requantization(rng, 1, 8)}
    elif op == "average" and rng.random() < 0.3:
        values["offset"] = 128
    stride = tuple(int(v) for v in rng.integers(1, 5, 2))
    layer = Pool(**common, op=op, window=window, stride=stride, padding=padding, **values)
    smallest = tuple(max(1, window[i] - padding[i] - padding[i + 2]) for i in (0, 1))
    return Case(layer, channels, channels, smallest, unsigned)


def _draw_conv(rng, channels: int, common: dict) -> Case:
    large = rng.random() < 0.2
    kernel = tuple(int(v) for v in (rng.choice([1, 9, 17], 2) if large else rng.integers(1, 6, 2)))
    stride = tuple(int(v) for v in rng.integers(1, 4, 2))
    dilation = tuple(int(v) for v in rng.integers(1, 4, 2)) if rng.random() < 0.3 else (1, 1)
    padding = tuple(int(v) for v in rng.integers(0, 4, 4))
    if rng.random() < 0.2:
        kernel = stride = dilation = (1, 1)
        padding = (0, 0, 0, 0)
    features, raw = int(rng.choice([1, 8, 16, 33, 70])), rng.random() < 0.2
    layer = Conv(
        **common,
        weight=int8(rng, *kernel, channels, features),
        requantization=None if raw else requantization(rng, features, 500),
        input_zero_point=0 if raw else int(rng.integers(-9, 9)),
        weight_zero_point=int(rng.integers(-9, 9)),
        stride=stride,
        dilation=dilation,
        padding=padding,
    )
    return Case(layer, channels, features, _smallest(layer))


def _draw_depthwise(rng, channels: int, common: dict) -> Case:
    kernel = tuple(int(v) for v in rng.integers(1, 6, 2))
    layer = Depthwise(
        **common,
        weight=int8(rng, *kernel, channels),
        requantization=requantization(rng, channels, 50),
        input_zero_point=int(rng.integers(-9, 9)),
        weight_zero_point=int(rng.integers(-9, 9)),
        **_draw_windows(rng),
    )
    return Case(layer, channels, channels, _smallest(layer))


def _draw_multiplier(rng, common: dict) -> Case:
    """Draw a depthwise layer with a multiplier as frontends lower it: most weights are zero."""
    channels, multiplier = int(rng.choice([1, 3, 8, 20])), int(rng.choice([2, 3, 8]))
    kernel, features = tuple(int(v) for v in rng.integers(1, 6, 2)), channels * multiplier
    weight = np.zeros((*kernel, channels, features), np.int8)
    for channel in range(channels):
        outputs = slice(channel * multiplier, (channel + 1) * multiplier)
        weight[:, :, channel, outputs] = int8(rng, *kernel, multiplier)
    layer = Conv(
        **common,
        weight=weight,
        requantization=requantization(rng, features, 50),
        input_zero_point=int(rng.integers(-9, 9)),
        **_draw_windows(rng),
    )
    return Case(layer, channels, features, _smallest(layer))


def _draw_windows(rng) -> dict[str, tuple[int, ...]]:
    """Draw strides, dilation and padding."""
    return {
        "stride": tuple(int(v) for v in rng.integers(1, 4, 2)),
        "dilation": tuple(int(v) for v in rng.integers(1, 4, 2)) if rng.random() < 0.3 else (1, 1),
        "padding": tuple(int(v) for v in rng.integers(0, 4, 4)),
    }


def _smallest(layer: Conv | Depthwise) -> tuple[int, ...]:
    """Return the smallest extents for which there is an output."""
    kernel, padding = layer.weight.shape, layer.padding
    reach = [(kernel[i] - 1) * layer.dilation[i] + 1 for i in (0, 1)]
    return tuple(max(1, reach[i] - padding[i] - padding[i + 2]) for i in (0, 1))


def draw_inputs(rng, program: Program) -> dict[str, np.ndarray]:
    """Draw the inputs of a program."""
    return {
        spec.name: rng.integers(0, 256, spec.shape).astype(np.uint8).view(spec.dtype)
        for spec in program.inputs
    }


def expected(case: Case, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the output image by image with the golden layers."""
    images = []
    for number in range(len(inputs["x"])):
        image = {}
        for name, value in inputs.items():
            one = value[number if len(value) > 1 else 0]
            image[name] = one if one.dtype == np.int8 else (one ^ 128).view(np.int8)
        graph = case.graph(*image["x"].shape[:2])
        result = run_layers(graph, image)["y"]
        images.append(result.view(np.uint8) ^ 128 if "y" in case.unsigned else result)
    return np.stack(images)


def bytes_moved(program: Program, window: Window) -> np.ndarray:
    """Count how often a program moves each byte of a window.

    A line of a transfer that leaves the window fails an assertion.
    """
    config, size = program.config, program.window_bytes[window]
    counts = np.zeros(size, np.int64)
    opcode = Opcode.STORE if window == Window.OUTPUT else Opcode.LOAD
    for command in program.commands:
        if command.opcode == opcode and command["window"] == window:
            length = command["rows"] * config.row_bytes
            for line in range(command["lines"]):
                start = command["offset"] + line * command["stride"]
                assert start + length <= size
                counts[start : start + length] += 1
    return counts


def config_name(config: Config) -> str:
    """Name a machine in the names of tests."""
    return f"{config.array_size}x{config.ub_rows}"
