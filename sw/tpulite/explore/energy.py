"""Energy of a run, from published energies of operations and from counts of events.

What no table has is not counted: clock tree, control, leakage, wires between blocks. How machines
compare changes less from table to table than the sums do.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.explore.measure import Counts


@dataclass(frozen=True)
class EnergyTable:
    """Picojoules of operations, as somebody has published them."""

    source: str  #: Who, and where.
    #: An integer multiplication of 8 or 32 bits, and an addition of 32.
    multiply_8: float
    multiply_32: float
    add_32: float
    #: Bytes of a memory and 8 bytes from or to it, at least two, ascending. In between, and beyond,
    #: it is a line on logarithmic axes.
    memories: tuple[tuple[int, float], ...]
    dram: float  #: 8 bytes from or to DRAM.

    def access(self, size: int) -> float:
        """Return the picojoules of 8 bytes of a memory of so many bytes."""
        pairs = list(zip(self.memories, self.memories[1:], strict=False))
        (low, first), (high, second) = next((x for x in pairs if size <= x[1][0]), pairs[-1])
        slope = math.log(second / first) / math.log(high / low)
        return first * (size / low) ** slope


_KIB = 1024

TABLES = {
    "45nm": EnergyTable(
        'M. Horowitz, "Computing\'s energy problem (and what we can do about it)", ISSCC 2014, '
        "figure 1.1.9, 45 nm at 0.9 V; DRAM in the middle of 1.3 to 2.6 nJ",
        multiply_8=0.2,
        multiply_32=3.1,
        add_32=0.1,
        memories=((8 * _KIB, 10.0), (32 * _KIB, 20.0), (1024 * _KIB, 100.0)),
        dram=1950.0,
    ),
    "7nm": EnergyTable(
        'N. Jouppi et al., "Ten lessons from three generations shaped Google\'s TPUv4i", ISCA '
        "2021, table 2, 7 nm; DRAM is DDR4",
        multiply_8=0.07,
        multiply_32=1.48,
        add_32=0.03,
        memories=((8 * _KIB, 7.5), (32 * _KIB, 8.5), (1024 * _KIB, 14.0)),
        dram=1300.0,
    ),
}
"""By process."""

_SUM_BYTES = 4


@dataclass(frozen=True)
class Energy:
    """Nanojoules of some runs, by where they go."""

    #: Multiplications and additions, all multipliers in each step: an upper bound, as padding and
    #: unused columns take less.
    array: float
    buffers: float  #: Rows of the unified buffer and of the accumulators.
    #: Scaling sums, or elements of the vector path, to int8: a product of 32 bits each.
    results: float
    dram: float  #: Bytes from and to DRAM.

    @property
    def total(self) -> float:
        """All of it."""
        return self.array + self.buffers + self.results + self.dram


def energy(config: Config, runs: Iterable[Counts], table: EnergyTable = TABLES["45nm"]) -> Energy:
    """Estimate the energy of runs on a machine; it is good for a factor of two.

    Parameters
    ----------
    table : EnergyTable, optional
        Energies of operations.

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
    sum_row = size * _SUM_BYTES
    buffer = rows * size / 8 * table.access(config.ub_bytes // config.ub_banks)
    accumulators = sums * sum_row / 8 * table.access(config.acc_rows * sum_row)
    return Energy(
        array=steps * size**2 * (table.multiply_8 + table.add_32) / 1000,
        buffers=(buffer + accumulators) / 1000,
        results=results * size * table.multiply_32 / 1000,
        dram=traffic / 8 * table.dram / 1000,
    )
