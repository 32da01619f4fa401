"""Transfers of tensors between DRAM and the unified buffer, many at once."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.axis import Number, most, pick
from tpulite.compiler.operators.words import Batch, Origin, commands
from tpulite.compiler.plan.segments import Spread
from tpulite.program import TensorSpec

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class DramTensor:
    """A tensor of channel blocks in DRAM, a block of ``vectors`` vectors after the other.

    Where it begins is an :class:`Origin`.
    """

    window: Window  #: DRAM window.
    vectors: int  #: Vectors of a block.
    vector_rows: int  #: Rows of the unified buffer that a vector takes.
    block_bytes: int  #: Bytes from block to block.
    row_bytes: int  #: Bytes of a row.
    flip: int  #: Whether the host sees uint8.

    @classmethod
    def spread(cls, layers: Spread, name: str) -> "DramTensor":
        """Return the tensors of elements of many layers: numbers may be arrays."""
        return cls(*layers.value(name, cls.__match_args__))

    @classmethod
    def of(cls, spec: TensorSpec, config: Config) -> "DramTensor":
        """Return where ``spec`` lies."""
        rows = 4 if spec.dtype == "int32" else 1
        if spec.packed_rows is None:
            vectors, block_bytes = spec.m, spec.block_bytes(config)
        else:
            vectors, block_bytes = spec.m * spec.packed_rows.vectors, spec.nbytes(config)
        flip = int(spec.dtype == "uint8")
        return cls(spec.window, vectors, rows, block_bytes, config.row_bytes, flip)

    @property
    def block_vectors(self) -> Number:
        """Vectors from block to block."""
        return self.block_bytes // most(self.row_bytes * self.vector_rows, 1)

    def transfer(
        self,
        opcode: Opcode,
        blocks: tuple[int | Numbers, int | Numbers],
        vectors: tuple[int | Numbers, int | Numbers],
        row: Numbers,
        pitch: int | Numbers,
        source: Origin = Origin.SOURCE,
    ) -> Batch:
        """Encode transfers of some vectors of some blocks.

        Parameters
        ----------
        opcode : Opcode
            LOAD or STORE.
        blocks, vectors : tuple of two int or array
            First one, and how many.
        row : array of int
            Where the first vector is in the unified buffer.
        pitch : int or array
            Rows of the unified buffer from block to block.
        source : Origin
            The origin of what is loaded.
        """
        size = self.row_bytes * self.vector_rows
        lines, length = blocks[1], vectors[1]
        stride = self.block_bytes
        whole = length * size == stride  # blocks without a gap
        lines, length = pick(whole, 1, lines), pick(whole, lines * length, length)
        alone = lines == 1
        stride, pitch = pick(alone, 0, stride), pick(alone, 0, pitch)
        return commands(
            opcode,
            len(row),
            _origins(opcode, source),
            window=self.window,
            flip=self.flip,
            offset=blocks[0] * self.block_bytes + vectors[0] * size,
            stride=stride,
            lines=lines,
            rows=length * self.vector_rows,
            row=row,
            pitch=pitch,
        )

    def rectangles(
        self,
        opcode: Opcode,
        block: Numbers,
        first: Numbers,
        extents: tuple[Numbers, Numbers],
        width: int | Numbers,
        row: Numbers,
        pitch: int | Numbers,
    ) -> Batch:
        """Encode transfers of lines: parts of the rows of an image, of one block, or blocks.

        Parameters
        ----------
        opcode : Opcode
            LOAD or STORE.
        block, first : array of int
            The block, and its first vector.
        extents : tuple of two arrays of int
            Lines, and vectors of each.
        width : int or array of int
            Vectors from line to line.
        row : array of int
            Where the first vector is in the unified buffer.
        pitch : int or array of int
            Rows of the unified buffer from line to line.
        """
        size = self.row_bytes * self.vector_rows
        return commands(
            opcode,
            len(row),
            _origins(opcode, Origin.SOURCE),
            window=self.window,
            flip=self.flip,
            offset=block * self.block_bytes + first * size,
            stride=width * size,
            lines=extents[0],
            rows=extents[1] * self.vector_rows,
            row=row,
            pitch=pitch,
        )


NOWHERE = DramTensor(Window.SCRATCH, 0, 0, 0, 0, 0)
"""What a table of layers says of a tensor that is not in DRAM."""

_CONSTANTS = {"offset": Origin.CONSTANTS, "row": Origin.TILES}


def _origins(opcode: Opcode, source: Origin) -> Mapping[str, Origin]:
    return {"offset": Origin.TARGET if opcode == Opcode.STORE else source, "row": Origin.TILES}


def load_constants(offset: int | Numbers, rows: int | Numbers, row: Numbers) -> Batch:
    """Encode LOADs of ``rows`` rows of a layer's constants from byte ``offset`` on."""
    return commands(
        Opcode.LOAD,
        len(row),
        _CONSTANTS,
        window=Window.CONSTANTS,
        offset=offset,
        lines=1,
        rows=rows,
        row=row,
    )
