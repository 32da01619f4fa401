"""Workloads of dense layers: products of matrices, and the classifier of digits."""

from dataclasses import dataclass

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.bench.workload import Outcome
from tpulite.compiler import compile_layers, compile_pair
from tpulite.graph.network import Dense, Network
from tpulite.models import DigitsTest, mlp_digits
from tpulite.program import Program
from tpulite.runtime.device import Device
from tpulite.runtime.reference import reference
from tpulite.runtime.session import Session

__all__ = ["BATCH", "STREAM", "DenseWorkload", "make_gemm", "make_mlp"]

BATCH = 16
"""Images of a batch."""

STREAM = 16
"""Batches of the program of many."""

_SEED = 1


@dataclass(frozen=True, eq=False)
class DenseWorkload:
    """A chain of dense layers.

    Parameters
    ----------
    network : Network
        The layers.
    values : ndarray, [m, k]
        Its input.
    config : Config
        The machine.
    batches : int
        Batches of 16 in the input.
    warm : bool
        Whether a first program, which is not measured, leaves weights in the unified buffer.
    """

    network: Network
    values: np.ndarray
    config: Config
    batches: int = 1
    warm: bool = False

    def compile(self) -> tuple[Program, ...]:
        """Compile it; the last program is what is measured."""
        layers = self.network.graph(len(self.values))
        if self.warm:
            return compile_pair(layers, self.config)
        return (compile_layers(layers, self.config),)

    def run(self, programs: tuple[Program, ...], device: Device) -> Outcome:
        """Run what was compiled, and compare the result with the exact one."""
        base = 0
        for program in programs[:-1]:
            session = Session(program, device, base=base)
            session.run(self.values)
            base = session.end
        results = Session(programs[-1], device, base=base).run(self.values)
        exact = np.array_equal(results.output, reference(self.network, self.values))
        return Outcome(programs[-1:], results.cycles, results.counters, exact, self.batches)


def make_mlp(config: Config, variant: str) -> DenseWorkload:
    """Classify digits: ``cold``, ``warm`` with resident weights, or a ``stream`` of batches."""
    images = DigitsTest.load().images
    batches = STREAM if variant == "stream" else 1
    values = np.resize(images, (BATCH * batches, images.shape[1]))
    return DenseWorkload(mlp_digits(), values, config, batches, warm=variant == "warm")


def make_gemm(config: Config, m: int, k: int, n: int) -> DenseWorkload:
    """Multiply random matrices [m, k] and [k, n]."""
    rng = np.random.default_rng(_SEED)
    layer = Dense(
        name="gemm",
        weight=rng.integers(-128, 128, (k, n), dtype=np.int8),
        bias=rng.integers(-(2**12), 2**12, n, dtype=np.int32),
        scale=np.array([1 / (100 * k**0.5)], np.float32),
        rounding=Rounding[config.roundings[-1].upper()],
    )
    values = rng.integers(-128, 128, (m, k), dtype=np.int8)
    return DenseWorkload(Network(f"gemm_{m}x{k}x{n}", (layer,)), values, config)
