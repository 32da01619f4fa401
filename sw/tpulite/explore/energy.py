"""Energy of a run, from published energies of operations in 45 nm and from counts of events.

The numbers are those of M. Horowitz, "Computing's energy problem (and what we can do about it)",
ISSCC 2014, figure 1.1.9, at 0.9 V. What is not there is not counted: clock tree, control,
leakage, wires between blocks. A process of today takes less; what part of the energy goes where,
and how machines compare, changes less than the sums do.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from tpulite.arch.config import Config
from tpulite.explore.measure import Counts

__all__ = ["Energy", "energy"]

_MULTIPLY_8, _MULTIPLY_32, _ADD_32 = 0.2, 3.1, 0.1
"""Picojoules of an integer multiplication of 8 or 32 bits, and of an addition of 32."""

_ACCESS, _ACCESS_BYTES, _ACCESS_OF = 10.0, 8, 8192
"""Picojoules of reading 8 bytes of a memory of 8 KiB. It grows with the square root of the size: 20
at 32 KiB, as in the source, and 113 at 1 MiB, where the source has 100."""

_DRAM = 1950 / 8
"""Picojoules of a byte from or to DRAM, in the middle of the 1.3 to 2.6 nJ for 8 bytes."""

_SUM_BYTES = 4


@dataclass(frozen=True)
class Energy:
    """Nanojoules of some runs, by where they go.

    Parameters
    ----------
    array : float
        Multiplications and additions, all multipliers in each step: an upper bound, as padding
        and unused columns take less.
    buffers : float
        Rows of the unified buffer and of the accumulators.
    results : float
        Scaling sums, or elements of the vector path, to int8: a product of 32 bits each.
    dram : float
        Bytes from and to DRAM.
    """

    array: float
    buffers: float
    results: float
    dram: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.array + self.buffers + self.results + self.dram

    def as_dict(self) -> dict[str, float]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def energy(config: Config, runs: Iterable[Counts]) -> Energy:
    """Estimate the energy of runs on a machine; it is good for a factor of two.

    Parameters
    ----------
    config : Config
        The machine.
    runs : iterable of Counts
        What each run does.

    Examples
    --------
    >>> round(energy(Config(), [Counts(array_steps=1000)]).array, 1)  # 256,000 at 0.3 pJ
    76.8
    """
    runs, size = list(runs), config.array_size
    steps = sum(each.array_steps for each in runs)
    rows = sum(each.buffer_reads + each.buffer_writes for each in runs)
    sums = sum(each.accumulator_reads + each.accumulator_writes for each in runs)
    results = sum(each.result_rows for each in runs)
    traffic = sum(each.read_bytes + each.written_bytes for each in runs)
    row, sum_row = size, size * _SUM_BYTES
    buffer = rows * _access(row, config.ub_bytes // config.ub_banks)
    accumulators = sums * _access(sum_row, config.acc_rows * sum_row)
    return Energy(
        array=steps * size**2 * (_MULTIPLY_8 + _ADD_32) / 1000,
        buffers=(buffer + accumulators) / 1000,
        results=results * size * _MULTIPLY_32 / 1000,
        dram=traffic * _DRAM / 1000,
    )


def _access(row_bytes: int, memory_bytes: int) -> float:
    """Return the picojoules of a row of a memory."""
    return _ACCESS * row_bytes / _ACCESS_BYTES * math.sqrt(memory_bytes / _ACCESS_OF)
