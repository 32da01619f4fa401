"""Benchmarks: known workloads on a device, each result compared with the exact one."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.memory import Window
from tpulite.arch.numerics import Rounding
from tpulite.compiler import compile_network, compile_pair
from tpulite.graph.network import Dense, Network
from tpulite.models import DigitsTest, mlp_digits
from tpulite.program import Program
from tpulite.report.peers import peers_of
from tpulite.runtime.device import Device
from tpulite.runtime.reference import reference
from tpulite.runtime.results import Results
from tpulite.runtime.session import Session

__all__ = ["WORKLOADS", "Record", "parse_workload", "run_workloads"]

_BATCH = 16
_STREAM = 16
_SEED = 1

_GEMMS = (
    (1, 16, 16),
    (1, 256, 256),
    (16, 16, 16),
    (16, 256, 256),
    (32, 32, 32),
    (64, 64, 64),
    (100, 100, 100),
    (128, 128, 128),
    (128, 256, 256),
    (256, 256, 256),
    (512, 512, 512),
)

WORKLOADS = (
    *(f"gemm_{m}x{k}x{n}" for m, k, n in _GEMMS),
    "mlp_b16_cold",
    "mlp_b16_warm",
    "mlp_b16_stream",
)
"""Names of the workloads; any other ``gemm_MxKxN`` is one, too."""


@dataclass(frozen=True)
class Record:
    """Result of one workload.

    Parameters
    ----------
    workload : str
        Its name.
    macs : int
        Multiplications.
    cycles : int, optional
        Cycles from start to interrupt; None where the device has no clock.
    cycles_per_batch : float, optional
        Cycles of a batch of 16, if there are several.
    limit_cycles : int
        Cycles that the multipliers need, all of them always busy.
    dram_cycles : int
        Cycles that DRAM needs to deliver every operand once, or to take the results.
    utilization, limit_share : float, optional
        ``limit_cycles``, and the larger limit, as a part of ``cycles``.
    bit_exact : bool
        Whether the result is the exact one, bit for bit.
    device : str
        Where it ran.
    array_size : int
        N of the machine.
    cycles_per_second : float, optional
        Simulated cycles a second.
    counters : dict
        Counters of the chip.
    peers : list of dict
        Figures of other machines.
    """

    workload: str
    macs: int
    cycles: int | None
    cycles_per_batch: float | None
    limit_cycles: int
    dram_cycles: int
    utilization: float | None
    limit_share: float | None
    bit_exact: bool
    device: str
    array_size: int
    cycles_per_second: float | None
    counters: dict[str, int]
    peers: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def run_workloads(names: Iterable[str], device: Device, *, device_name: str) -> Iterator[Record]:
    """Run workloads one after the other.

    Parameters
    ----------
    names : iterable of str
        Names as in :data:`WORKLOADS`.
    device : Device
        Where to run them.
    device_name : str
        What to call it.

    Yields
    ------
    Record
        One a workload.

    Raises
    ------
    ValueError
        If a name is unknown; nothing has run then.
    """
    shapes = {name: parse_workload(name) for name in names}
    return (_run(name, shape, device, device_name) for name, shape in shapes.items())


def parse_workload(name: str) -> tuple[int, int, int] | None:
    """Return the extents of a GEMM, or None for an MLP.

    Raises
    ------
    ValueError
        If there is no such workload.
    """
    if match := re.fullmatch(r"gemm_([1-9]\d*)x([1-9]\d*)x([1-9]\d*)", name):
        m, k, n = map(int, match.groups())
        return m, k, n
    if name not in WORKLOADS:
        known = ", ".join(name for name in WORKLOADS if not name.startswith("gemm"))
        raise ValueError(f"Workload must be gemm_MxKxN or one of {known}, not {name!r}")
    return None


def _run(name: str, shape: tuple[int, int, int] | None, device: Device, device_name: str) -> Record:
    config = device.config
    batches = _STREAM if name == "mlp_b16_stream" else 1
    before = (getattr(device, "cycles", 0), getattr(device, "seconds", 0.0))
    if shape is not None:
        m, k, n = shape
        network, values = _gemm(m, k, n, config)
        program = compile_network(network, config, batch=m)
        results = Session(program, device).run(values)
    else:
        network = mlp_digits()
        images = DigitsTest.load().images
        values = np.resize(images, (_BATCH * batches, images.shape[1]))
        program, results = _run_mlp(network, values, device, warm=name == "mlp_b16_warm")
    exact = np.array_equal(results.output, reference(network, values))
    macs, peak = program.macs, config.array_size**2
    limit, dram = -(-macs // peak), _dram_cycles(program)
    cycles = results.cycles
    simulated = getattr(device, "cycles", 0) - before[0]
    seconds = getattr(device, "seconds", 0.0) - before[1]
    return Record(
        workload=name,
        macs=macs,
        cycles=cycles,
        cycles_per_batch=cycles / batches if cycles and batches > 1 else None,
        limit_cycles=limit,
        dram_cycles=dram,
        utilization=macs / (cycles * peak) if cycles else None,
        limit_share=max(limit, dram) / cycles if cycles else None,
        bit_exact=exact,
        device=device_name,
        array_size=config.array_size,
        cycles_per_second=simulated / seconds if seconds else None,
        counters=dict(results.counters),
        peers=[peer.as_dict() for peer in peers_of(name)],
    )


def _run_mlp(
    network: Network, values: np.ndarray, device: Device, *, warm: bool
) -> tuple[Program, Results]:
    if not warm:
        program = compile_network(network, device.config, batch=len(values))
        return program, Session(program, device).run(values)
    first, program = compile_pair(network, device.config, batch=len(values))
    loading = Session(first, device)
    loading.run(values)
    return program, Session(program, device, base=loading.end).run(values)


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


def _dram_cycles(program: Program) -> int:
    """Return the cycles in which DRAM delivers every operand once, or takes the results."""
    constants = 0 if program.resident else len(program.constants)
    read = constants + program.window_bytes[Window.INPUT]
    return max(read, program.window_bytes[Window.OUTPUT]) // BEAT_BYTES
