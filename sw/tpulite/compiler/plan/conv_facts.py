"""What plans of convolutions are made from: of one shape, of ranges of shapes, in groups."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property

import numpy as np

from tpulite.arch import isa
from tpulite.arch.config import Config
from tpulite.arch.effects import tile_rows
from tpulite.arch.isa import RAW_ROWS, Drain, RecordForm
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, Axis1D, Number, most_outputs
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.geometry.passes import AxisLimits, Pass, cut_kernel, pass_tiles
from tpulite.compiler.plan.segments import numbers


@dataclass(frozen=True)
class Units:
    """Pieces of the weights; one command multiplies one of them. All arrays have one length."""

    output: np.ndarray  #: The n-block that it belongs to; units of an n-block are adjacent.
    number: np.ndarray  #: Its number in the n-block.
    final: np.ndarray  #: Whether it is the last one of the n-block, behind which lie the records.
    #: First channel block, and how many.
    block: np.ndarray
    blocks: np.ndarray
    #: Kernel rows and columns: the first one, and how many.
    row: np.ndarray
    rows: np.ndarray
    column: np.ndarray
    columns: np.ndarray
    offset: np.ndarray  #: First byte in the constants.
    weight_rows: np.ndarray  #: Rows of the buffer that the weights take.
    buffer_rows: np.ndarray  #: The same with the records.

    @cached_property
    def table(self) -> np.ndarray:
        """All arrays, as rows in the order of the parameters."""
        return np.array([getattr(self, field.name) for field in fields(self)])

    @cached_property
    def largest(self) -> int:
        """Rows of the largest unit."""
        return int(self.buffer_rows.max())

    @cached_property
    def total(self) -> int:
        """Rows of all units."""
        return int(self.buffer_rows.sum())

    @cached_property
    def most(self) -> int:
        """Most units of an n-block."""
        return int(self.number.max()) + 1

    @classmethod
    def of(
        cls, passes: Sequence[Sequence[Pass]], record_rows: int, tile_rows: int, config: Config
    ) -> "Units":
        """Return the units of all n-blocks: a pass each, and records behind the last one.

        Parameters
        ----------
        passes : sequence of sequence of Pass
            By n-block.
        record_rows : int
            Rows of the buffer that the records of an n-block take.
        tile_rows : int
            Rows that a weight tile takes.
        """
        tables: dict[int, np.ndarray] = {}  # n-blocks share passes
        for parts in passes:
            if id(parts) not in tables:
                tables[id(parts)] = _table(parts)
        columns = np.concatenate([tables[id(parts)] for parts in passes], 1)
        number, last, block, blocks, row, rows, column, widths, tiles = columns
        sizes = tiles * tile_rows + last * record_rows
        return cls(
            output=np.repeat(np.arange(len(passes)), [len(parts) for parts in passes]),
            number=number,
            final=last > 0,
            block=block,
            blocks=blocks,
            row=row,
            rows=rows,
            column=column,
            columns=widths,
            offset=(np.cumsum(sizes) - sizes) * config.row_bytes,
            weight_rows=tiles * tile_rows,
            buffer_rows=sizes,
        )


def _table(parts: Sequence[Pass]) -> np.ndarray:
    """Return of each pass its number, whether it is the last, six numbers of places, and tiles."""
    rows = []
    for number, part in enumerate(parts):
        ranges = ((x.start, len(x)) for x in (part.blocks, part.rows, part.columns))
        places = (value for pair in ranges for value in pair)
        rows.append((number, number == len(parts) - 1, *places, part.tiles))
    return np.array(rows).T


@dataclass(frozen=True)
class ActivationExtents:
    """Extents of the activations of a convolution, as the machine sees them."""

    #: Of the input; columns are vectors.
    batch: Number
    height: Number
    width: Number
    #: Of the output, as it is computed.
    out_height: Number
    out_width: Number


@dataclass(frozen=True, kw_only=True)
class ConvFacts:
    """What is known of a convolution before its shape is, and where its activations are."""

    config: Config  #: The machine.
    #: Its geometry; columns of packed rows are vectors.
    y: Axis1D
    x: Axis1D
    #: Bytes from an output column to the next if the input lies in packed rows; else 0.
    byte_step: int
    blocks: int  #: Channel blocks of the input.
    runs: tuple[tuple[range, ...], ...]  #: By n-block, those that have weights.
    form: RecordForm | None  #: Form of the records; none if sums are the output.
    #: Rows of the buffer that the records of an n-block take, if they come with its weights.
    record_rows: int = 0
    transposed: bool = False  #: Whether packed rows are columns, so that y runs along the width.
    column_grain: int = 1  #: Commands begin at multiples of so many columns: 2 if these are pairs.
    int4: bool = False  #: Whether weight tiles are int4.

    @property
    def vector_rows(self) -> int:
        """Rows of the buffer that an output vector takes."""
        return RAW_ROWS if self.form is None else 1

    @property
    def n_blocks(self) -> int:
        """n-blocks."""
        return len(self.runs)

    @cached_property
    def tiles(self) -> int:
        """Weight tiles."""
        return self.y.kernel * self.x.kernel * sum(len(run) for runs in self.runs for run in runs)

    @property
    def tile_rows(self) -> int:
        """Rows of the buffer that a weight tile takes."""
        return tile_rows(self.int4, self.config)

    @property
    def weight_rows(self) -> int:
        """Rows of the buffer that all weights take."""
        return self.tiles * self.tile_rows

    def passes(
        self, rows: AxisLimits, columns: AxisLimits, *, early: bool = False, late: bool = False
    ) -> tuple[tuple[Pass, ...], ...]:
        """Return passes over the kernel by n-block.

        The very first one may be small, so that it starts when its weights are there (``early``);
        and of the first n-block the last channel block may be apart, as it is computed last
        (``late``).
        """
        kernel, most = (self.y.kernel, self.x.kernel), pass_tiles(self.tile_rows, self.config)

        @cache  # most n-blocks have the same runs
        def cut(runs: tuple[range, ...], early: bool, late: bool) -> tuple[Pass, ...]:
            return tuple(
                part
                for run in runs
                for part in cut_kernel(
                    kernel,
                    run,
                    most,
                    rows=rows,
                    columns=columns,
                    early=early and run == runs[0],
                    late=late and run == runs[-1],
                )
            )

        return tuple(
            cut(runs, early and n == 0, late and n == 0) for n, runs in enumerate(self.runs)
        )

    @cached_property
    def block_passes(self) -> tuple[tuple[Pass, ...], ...]:
        """Passes of one channel block each."""
        return self.passes(AxisLimits(blocks=1), AxisLimits())

    @cached_property
    def small(self) -> Units:
        """Units of one channel block each."""
        return self._units(self.block_passes)

    @cached_property
    def large(self) -> Units:
        """Units of several channel blocks, if all taps of one are one unit.

        Those of a block lie one after the other, so units of parts of a kernel have one block.
        """
        if len(self.block_passes[0]) > self.blocks:
            return self.small
        return self._units(self.passes(AxisLimits(), AxisLimits(), early=True))

    def _units(self, passes: Sequence[Sequence[Pass]]) -> Units:
        return Units.of(passes, self.record_rows, self.tile_rows, self.config)

    @property
    def chunks(self) -> bool:
        """Whether units may have several channel blocks: all taps of one are one unit."""
        return len(self.block_passes[0]) == self.blocks > 1

    @cached_property
    def most_chunk(self) -> int:
        """Most channel blocks of a unit."""
        tiles = self.y.kernel * self.x.kernel
        blocks = pass_tiles(self.tile_rows, self.config) // tiles
        return max(min(blocks, self.blocks, MOST_BLOCKS), 1)

    @cached_property
    def _chunked(self) -> dict[int, Units]:
        """Units by their most channel blocks, as far as they were asked for."""
        return {1: self.small}

    def chunked(self, blocks: int) -> Units:
        """Return units of at most so many channel blocks, nearly equal ones."""
        if blocks not in self._chunked:
            passes = self.passes(AxisLimits(blocks=blocks), AxisLimits())
            self._chunked[blocks] = self._units(passes)
        return self._chunked[blocks]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """What commands need of it, by name."""
        return {
            **numbers("y", self.y),
            **numbers("x", self.x),
            "blocks": self.blocks,
            "outputs": self.n_blocks,
            "vector_rows": self.vector_rows,
            "byte_step": self.byte_step,
            "int4": int(self.int4),
            "form": self.form or 0,
            "drain": Drain.RAW if self.form is None else Drain.REQUANTIZE,
            "tallest": self.tallest,
            "widest": self.widest,
        }

    @cached_property
    def tallest(self) -> int:
        """Most output rows of a command with such units."""
        taps = int(self.small.rows.max())
        return most_outputs(LARGEST_EXTENT, taps, self.y.stride, self.y.dilation)

    @cached_property
    def widest(self) -> int:
        """Most output columns of a command that does not compute whole rows."""
        taps = int(self.small.columns.max())
        return most_outputs(LARGEST_EXTENT, taps, self.x.stride, self.x.dilation)


MOST_BLOCKS = isa.CONV.limit("blocks")
"""Most channel blocks of a command."""


def _grow(blocks: int) -> list[int]:
    sizes, size = [], 1
    while blocks:
        sizes.append(min(size, blocks))
        blocks -= sizes[-1]
        size = sum(sizes)
    return sizes


def _taper(blocks: int, part: int) -> list[int]:
    sizes = []
    while blocks:
        sizes.append(-(-blocks // part))
        blocks -= sizes[-1]
    return sizes


def _equal(blocks: int, parts: int) -> list[int]:
    return [len(piece) for piece in split(blocks, parts, 1)]


CHUNK_STYLES = {
    "whole": lambda k: [k],
    "last": lambda k: [k - 1, 1],
    "halves": lambda k: _equal(k, 2),
    "quarters": lambda k: _equal(k, 4),
    "eighths": lambda k: _equal(k, 8),
    "grow": _grow,
    "taper": lambda k: _taper(k, 3),
    "slow taper": lambda k: _taper(k, 4),
    "shrink": lambda k: _grow(k)[::-1],
    "ones": lambda k: [1] * k,
}
"""Ways to cut K into chunks."""


def chunks(blocks: int, style: str) -> tuple[int, ...]:
    """Cut channel blocks into chunks that a command can do.

    Examples
    --------
    >>> chunks(10, "grow"), chunks(10, "last")
    ((1, 1, 2, 4, 2), (9, 1))
    """
    return tuple(
        size
        for chunk in CHUNK_STYLES[style](blocks)
        if chunk
        for size in _equal(chunk, -(-chunk // MOST_BLOCKS))
    )
