"""Random chains of dense layers for tests."""

from itertools import pairwise
from typing import Any

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.program import Program
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.runtime.model_run import as_dtype
from tpulite_testing.kept import kept_program
from tpulite_testing.quick_options import quick_options

__all__ = ["compile_network", "random_inputs", "random_network", "reference"]


def compile_network(network: LayerGraph, config: Config, **options: Any) -> Program:
    """Compile a chain of dense layers, by default without much search."""
    return kept_program(network, config, quick_options(**options))


def random_network(
    seed: int,
    sizes: list[int],
    batch: int = 1,
    *,
    rounding: Rounding = Rounding.FLOAT32,
    input_dtype: str = "int8",
    per_channel: bool = True,
    raw: bool = False,
) -> LayerGraph:
    """Make layers of ``sizes[i]`` by ``sizes[i + 1]`` with scales that neither vanish nor clip.

    ``x0`` and ``y`` are ``batch`` vectors of ``input_dtype``; ``y`` are the last sums if ``raw``.
    """
    rng = np.random.default_rng(seed)
    names = ["x0", *(f"x{i}" for i in range(1, len(sizes) - 1)), "y"]
    images = {"x0": Activation((batch, 1, sizes[0]))}
    layers = []
    zero_point = int(rng.integers(-128, 128))
    for i, ((k, n), (x, y)) in enumerate(zip(pairwise(sizes), pairwise(names), strict=True)):
        sums = raw and i == len(sizes) - 2
        scales = rng.uniform(0.3, 1.5, n if per_channel else 1) / (100 * np.sqrt(k))
        bias = rng.integers(-(2**12), 2**12, n)
        output, low, high = (
            int(rng.integers(*ends)) for ends in ((-128, 128), (-128, -64), (64, 128))
        )
        record = make_requantization(scales.astype(np.float32), rounding, output, (low, high), bias)
        layers.append(
            Conv(
                name=f"fc{i}",
                inputs=(x,),
                output=y,
                weight=rng.integers(-128, 128, (1, 1, k, n), dtype=np.int8),
                requantization=None if sums else record,
                input_zero_point=0 if sums else zero_point,
                weight_zero_point=int(rng.integers(-20, 20)),
            )
        )
        images[y] = Activation((batch, 1, n), "int32" if sums else "int8")
        zero_point = output
    unsigned = {"x0"} if raw else {"x0", "y"}
    return LayerGraph(
        "random",
        tuple(layers),
        images,
        ("x0",),
        ("y",),
        unsigned=frozenset(unsigned if input_dtype == "uint8" else ()),
    )


def random_inputs(seed: int, network: LayerGraph) -> np.ndarray:
    """Make inputs of all values."""
    info = np.iinfo(np.uint8 if "x0" in network.unsigned else np.int8)
    rng = np.random.default_rng(seed)
    shape = network.activations["x0"].shape
    return rng.integers(info.min, info.max, shape, info.dtype, endpoint=True)


def reference(network: LayerGraph, values: np.ndarray) -> np.ndarray:
    """Return what every device must make of inputs, in the dtypes of the host."""
    output = run_layers(network, {"x0": as_dtype(values, "int8")})["y"]
    return as_dtype(output, "uint8") if "y" in network.unsigned else output
