"""Workloads of integer layers: single products and convolutions, several depthwise ones."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding, quantize_multiplier
from tpulite.bench.workload import Outcome
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers, compile_pair
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Activation, Conv, Depthwise, Layer, LayerGraph, Requantization
from tpulite.program import Program
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.runtime.device import Device
from tpulite.runtime.session import Session

_SEED = 1

_DEFAULTS = Options()


@dataclass(frozen=True, eq=False)
class LayersWorkload:
    """Integer layers and an input, from DRAM to DRAM."""

    layers: LayerGraph  #: The layers.
    inputs: dict[str, np.ndarray]  #: Dict of str to ndarray of int8, [H, W, C]. Their inputs.
    config: Config  #: The machine.
    vectors: int | None = None  #: Output vectors, if cycles of a vector are of interest.
    #: Whether constants stay on chip; the run that finds them there is measured.
    resident: bool = False

    @property
    def parts(self) -> tuple[LayerGraph, ...]:
        """Integer layers of each program."""
        return (self.layers,)

    def compile(self, options: Options = _DEFAULTS) -> tuple[Program, ...]:
        """Compile it; the bits are the same with all options."""
        if self.resident:
            return compile_pair(self.layers, self.config, replace(options, resident=True))
        return (compile_layers(self.layers, self.config, options),)

    def warmed(self) -> "LayersWorkload":
        """Return the same workload with constants that stay on chip."""
        return replace(self, resident=True)

    def run(self, programs: tuple[Program, ...], device: Device) -> Outcome:
        """Run what was compiled, and compare the result with the exact one."""
        sessions: list[Session] = []
        for program in programs:
            base = sessions[-1].end if sessions else 0
            sessions.append(Session(program, device, base=base))
        *_, results = [session.run(self.inputs) for session in sessions]
        exact = all(
            name in results.outputs and np.array_equal(results.outputs[name], self._expected[name])
            for name in self.layers.outputs
        )
        return Outcome(programs[-1:], results.cycles, results.counters, exact, vectors=self.vectors)

    @cached_property
    def _expected(self) -> dict[str, np.ndarray]:
        images = run_layers(self.layers, self.inputs)
        return {name: images[name] for name in self.layers.outputs}


def make_layers(layers: LayerGraph, config: Config) -> LayersWorkload:
    """Run layers on a random image."""
    rng = np.random.default_rng(_SEED)
    inputs = {
        name: rng.integers(-128, 128, layers.activations[name].shape).astype(np.int8)
        for name in layers.inputs
    }
    return LayersWorkload(layers, inputs, config)


def make_gemm(config: Config, m: int, k: int, n: int) -> LayersWorkload:
    """Multiply random matrices [m, k] and [k, n]."""
    rng = np.random.default_rng(_SEED)
    layer = Conv(
        name="gemm",
        inputs=("x0",),
        output="x1",
        weight=rng.integers(-128, 128, (1, 1, k, n), dtype=np.int8),
        requantization=make_requantization(
            float(np.float32(1 / (100 * k**0.5))),
            Rounding[config.roundings[-1].upper()],
            bias=rng.integers(-(2**12), 2**12, n, dtype=np.int32),
        ),
    )
    return _workload(
        (layer,), {"x0": Activation((m, 1, k)), "x1": Activation((m, 1, n))}, rng, config
    )


def make_conv(
    config: Config, height: int, width: int, channels: int, outputs: int
) -> LayersWorkload:
    """Convolve a random image with 3 x 3 kernels, stride 1, same padding."""
    rng = np.random.default_rng(_SEED)
    layer = Conv(
        name="conv",
        inputs=("x0",),
        output="x1",
        weight=rng.integers(-127, 128, (3, 3, channels, outputs)).astype(np.int8),
        requantization=_requantization(rng, outputs, 9 * channels, config),
        input_zero_point=-3,
        padding=(1, 1, 1, 1),
    )
    images = {
        "x0": Activation((height, width, channels)),
        "x1": Activation((height, width, outputs)),
    }
    return _workload((layer,), images, rng, config)


def make_depthwise(
    config: Config, height: int, width: int, channels: int, count: int
) -> LayersWorkload:
    """Convolve each channel with a 3 x 3 kernel, ``count`` times one after the other."""
    rng = np.random.default_rng(_SEED)
    layers = tuple(
        Depthwise(
            name=f"depthwise{i}",
            inputs=(f"x{i}",),
            output=f"x{i + 1}",
            weight=rng.integers(-127, 128, (3, 3, channels)).astype(np.int8),
            requantization=_requantization(rng, channels, 9, config),
            padding=(1, 1, 1, 1),
        )
        for i in range(count)
    )
    images = {f"x{i}": Activation((height, width, channels)) for i in range(count + 1)}
    vectors = count * height * width * -(-channels // config.array_size)
    return _workload(layers, images, rng, config, vectors)


def _workload(
    layers: tuple[Layer, ...],
    images: dict[str, Activation],
    rng: np.random.Generator,
    config: Config,
    vectors: int | None = None,
) -> LayersWorkload:
    first, last = layers[0].inputs[0], layers[-1].output
    graph = LayerGraph(layers[0].name, layers, images, (first,), (last,))
    inputs = {first: rng.integers(-128, 128, images[first].shape).astype(np.int8)}
    return LayersWorkload(graph, inputs, config, vectors)


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
