"""Constants of a depthwise convolution of any extents, and how outputs are cut into commands."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tpulite.arch.isa import Axis, RecordForm
from tpulite.compiler.geometry.closed_forms import Number, least
from tpulite.compiler.plan.depthwise_plan import DepthwisePlan, even_parts


@dataclass(frozen=True)
class Taps:
    """Parts of the kernel; a command multiplies one of them. All arrays have one length."""

    #: Kernel rows and columns: the first one, and how many. They are a step apart.
    row: np.ndarray
    rows: np.ndarray
    column: np.ndarray
    columns: np.ndarray

    @cached_property
    def table(self) -> np.ndarray:
        """All arrays, as rows in the order of the parameters."""
        return np.array([self.row, self.rows, self.column, self.columns])

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Pattern:
    """One way to use the array: rows, or columns, of the input are interleaved."""

    plan: DepthwisePlan  #: The way.
    taps: Taps  #: Parts of the kernel.
    #: Where its tiles begin in the constants. Of each block there are the tiles of all numbers of
    #: outputs along the inner axis, from one on; or of one number alone, if they are the same.
    #: Those of all that go through delay lines are one, the last.
    offset: int
    few: int  #: Most outputs of a command along that axis that go through no delay lines.
    many: int  #: Fewest outputs of one that goes through them; none does if that is one more.
    pairs: bool  #: Whether positions come in pairs there.

    @property
    def inner(self) -> Axis:
        """The axis along which they are."""
        return self.plan.inner

    @property
    def step(self) -> int:
        """Positions from a tap of a part to the next."""
        return self.plan.kernel[0][0].step

    @property
    def most(self) -> int:
        """Most outputs of a command along it."""
        return self.plan.outputs

    @property
    def numbers(self) -> int:
        """For how many numbers of outputs along the inner axis there are tiles."""
        kernel_parts = self.plan.kernel[0 if self.inner == Axis.X else 1]
        if max(map(len, kernel_parts)) == 1:
            return 1
        return self.few + (self.most > self.few)

    def parts(self, outputs: Number, limit: Number) -> Number:
        """Return into how many nearly equal parts outputs along it are cut, each of one command.

        Parameters
        ----------
        outputs, limit : int or array of int
            All of them, and the most that a part may have.
        """
        return even_parts(outputs, least(limit, self.most), self.few, self.many)

    def tile_rows(self, size: int) -> int:
        """Return the rows of the tiles of one number of outputs."""
        return len(self.taps) * size


@dataclass(frozen=True)
class DepthwiseWeights:
    """Constants of a depthwise convolution."""

    data: bytes  #: All of them: records of all blocks, tiles of the patterns, and a tile of zeros.
    form: RecordForm  #: Form of the records.
    record_rows: int  #: Rows of all records of a block.
    patterns: tuple[Pattern, ...]  #: The best one for each inner axis.
    zeros: int  #: Where the tile of zeros begins.
    #: Of averages: positions of windows that have a record of their own, in order.
    divisors: tuple[int, ...] = ()
