"""Workloads of dense layers: products of matrices, and the classifier of digits."""

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.bench.workload import Outcome
from tpulite.compiler import compile_network, compile_pair
from tpulite.graph.network import Dense, Network
from tpulite.models import DigitsTest, mlp_digits
from tpulite.program import Program
from tpulite.runtime.device import Device
from tpulite.runtime.reference import reference
from tpulite.runtime.results import Results
from tpulite.runtime.session import Session

__all__ = ["BATCH", "STREAM", "run_gemm", "run_mlp"]

BATCH = 16
"""Images of a batch."""

STREAM = 16
"""Batches of the program of many."""

_SEED = 1


def run_gemm(device: Device, m: int, k: int, n: int) -> Outcome:
    """Multiply random matrices [m, k] and [k, n]."""
    network, values = _gemm(m, k, n, device.config)
    program = compile_network(network, device.config, batch=m)
    return _outcome(network, values, program, Session(program, device).run(values))


def run_mlp(device: Device, variant: str) -> Outcome:
    """Classify digits: ``cold``, ``warm`` with resident weights, or a ``stream`` of batches."""
    network, images = mlp_digits(), DigitsTest.load().images
    batches = STREAM if variant == "stream" else 1
    values = np.resize(images, (BATCH * batches, images.shape[1]))
    if variant != "warm":
        program = compile_network(network, device.config, batch=len(values))
        results = Session(program, device).run(values)
    else:
        first, program = compile_pair(network, device.config, batch=len(values))
        loading = Session(first, device)
        loading.run(values)
        results = Session(program, device, base=loading.end).run(values)
    return _outcome(network, values, program, results, batches)


def _outcome(
    network: Network, values: np.ndarray, program: Program, results: Results, batches: int = 1
) -> Outcome:
    exact = np.array_equal(results.output, reference(network, values))
    return Outcome((program,), results.cycles, results.counters, exact, batches)


def _gemm(m: int, k: int, n: int, config: Config) -> tuple[Network, np.ndarray]:
    rng = np.random.default_rng(_SEED)
    layer = Dense(
        name="gemm",
        weight=rng.integers(-128, 128, (k, n), dtype=np.int8),
        bias=rng.integers(-(2**12), 2**12, n, dtype=np.int32),
        scale=np.array([1 / (100 * k**0.5)], np.float32),
        rounding=Rounding[config.roundings[-1].upper()],
    )
    values = rng.integers(-128, 128, (m, k), dtype=np.int8)
    return Network(f"gemm_{m}x{k}x{n}", (layer,)), values
