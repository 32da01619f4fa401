"""Units of weights: what one command multiplies, and what is loaded for it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.geometry.passes import Pass


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
        config : Config
            The machine.
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
