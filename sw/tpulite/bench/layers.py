"""Workloads of single convolutions, from DRAM to DRAM; depthwise ones several in a row."""

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding, quantize_multiplier
from tpulite.bench.workload import Outcome
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Conv, Depthwise, Image, Layer, LayerGraph, Requantization
from tpulite.runtime.device import Device
from tpulite.runtime.session import Session

__all__ = ["run_conv", "run_depthwise"]

_SEED = 1


def run_conv(device: Device, height: int, width: int, channels: int, outputs: int) -> Outcome:
    """Convolve a random image with 3 x 3 kernels, stride 1, same padding."""
    rng = np.random.default_rng(_SEED)
    layer = Conv(
        name="conv",
        inputs=("x0",),
        output="x1",
        weight=rng.integers(-127, 128, (3, 3, channels, outputs)).astype(np.int8),
        requantization=_requantization(rng, outputs, 9 * channels, device.config),
        input_zero_point=-3,
        padding=(1, 1, 1, 1),
    )
    images = {"x0": Image((height, width, channels)), "x1": Image((height, width, outputs))}
    return _run(device, (layer,), images, rng)


def run_depthwise(device: Device, height: int, width: int, channels: int, count: int) -> Outcome:
    """Convolve each channel with a 3 x 3 kernel, ``count`` times one after the other."""
    rng = np.random.default_rng(_SEED)
    layers = tuple(
        Depthwise(
            name=f"depthwise{i}",
            inputs=(f"x{i}",),
            output=f"x{i + 1}",
            weight=rng.integers(-127, 128, (3, 3, channels)).astype(np.int8),
            requantization=_requantization(rng, channels, 9, device.config),
            padding=(1, 1, 1, 1),
        )
        for i in range(count)
    )
    images = {f"x{i}": Image((height, width, channels)) for i in range(count + 1)}
    vectors = count * height * width * -(-channels // device.config.array_size)
    return _run(device, layers, images, rng, vectors)


def _run(
    device: Device,
    layers: tuple[Layer, ...],
    images: dict[str, Image],
    rng: np.random.Generator,
    vectors: int | None = None,
) -> Outcome:
    first, last = layers[0].inputs[0], layers[-1].output
    graph = LayerGraph(layers[0].name, layers, images, (first,), (last,))
    program = compile_layers(graph, device.config)
    inputs = {first: rng.integers(-128, 128, images[first].shape).astype(np.int8)}
    results = Session(program, device).run(inputs)
    exact = np.array_equal(results.outputs[last], run_layers(graph, inputs)[last])
    return Outcome((program,), results.cycles, results.counters, exact, vectors=vectors)


def _requantization(
    rng: np.random.Generator, channels: int, products: int, config: Config
) -> Requantization:
    """Return a scale a channel that brings sums of so many products to all of int8."""
    pairs = [
        quantize_multiplier(scale)
        for scale in rng.uniform(0.5, 2, channels) / (100 * products**0.5)
    ]
    multiplier, shift = np.array(pairs).T
    integer = [name for name in config.roundings if name != "float32"]
    return Requantization(multiplier=multiplier, shift=shift, rounding=Rounding[integer[0].upper()])
