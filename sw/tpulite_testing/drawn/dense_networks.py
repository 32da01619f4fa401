"""Random networks for tests."""

from itertools import pairwise
from typing import Any

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.compiler import compile_layers
from tpulite.compiler.options import Options
from tpulite.graph.network import Dense, Network
from tpulite.program import Program

__all__ = ["compile_network", "random_inputs", "random_network"]


def compile_network(network: Network, config: Config, batch: int, **options: Any) -> Program:
    """Compile a chain of dense layers, by default without much search."""
    return compile_layers(network.graph(batch), config, Options(**({"effort": 500} | options)))


def random_network(
    seed: int,
    sizes: list[int],
    *,
    rounding: Rounding = Rounding.FLOAT32,
    input_dtype: str = "int8",
    per_channel: bool = True,
    raw: bool = False,
) -> Network:
    """Make layers of ``sizes[i]`` by ``sizes[i + 1]`` with scales that neither vanish nor clip."""
    rng = np.random.default_rng(seed)
    layers = []
    zero_point = 0 if raw and len(sizes) == 2 else int(rng.integers(-128, 128))
    for i, (k, n) in enumerate(pairwise(sizes)):
        last_raw = raw and i == len(sizes) - 2
        output_zero_point = 0 if raw and i == len(sizes) - 3 else int(rng.integers(-128, 128))
        spread = rng.uniform(0.3, 1.5, n if per_channel else 1)
        layers.append(
            Dense(
                name=f"fc{i}",
                weight=rng.integers(-128, 128, (k, n), dtype=np.int8),
                bias=np.zeros(n, np.int32)
                if last_raw
                else rng.integers(-(2**12), 2**12, n, np.int32),
                scale=(spread / (100 * np.sqrt(k))).astype(np.float32),
                rounding=rounding,
                input_zero_point=zero_point,
                weight_zero_point=int(rng.integers(-20, 20)),
                output_zero_point=output_zero_point,
                low=int(rng.integers(-128, -64)),
                high=int(rng.integers(64, 128)),
                raw=last_raw,
            )
        )
        zero_point = output_zero_point
    return Network("random", tuple(layers), input_dtype)


def random_inputs(seed: int, network: Network, batch: int) -> np.ndarray:
    """Make a batch of inputs of all values."""
    info = np.iinfo(network.input_dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, (batch, network.k), network.input_dtype, endpoint=True)
