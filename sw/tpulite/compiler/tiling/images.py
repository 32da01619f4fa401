"""Images while a network runs: in the unified buffer, or in DRAM and here a strip at a time."""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.ops import Buffer, Op, Region, Side
from tpulite.program import TensorSpec

__all__ = ["Store", "View"]


@dataclass(frozen=True)
class View:
    """Some rows of an image in the unified buffer.

    Parameters
    ----------
    buffer : Buffer
        Where they are.
    rows : range
        Which rows of the image.
    row : int
        Row in the buffer of block 0, first image row, column 0.
    pitch, block_pitch : int
        Rows of the buffer from image row to image row, and from channel block to channel block.
    """

    buffer: Buffer
    rows: range
    row: int
    pitch: int
    block_pitch: int

    def at(self, y: int, x: int = 0, block: int = 0, *, step: int = 1) -> Region:
        """Return the place of a pixel; ``step`` is the rows of a vector."""
        row = self.row + block * self.block_pitch + (y - self.rows.start) * self.pitch + x * step
        return Region(self.buffer, row)

    def without(self, blocks: int) -> "View":
        """Return the same view of an image of which the first blocks are not there."""
        return replace(self, row=self.row - blocks * self.block_pitch)


class Store:
    """Where an image is kept: the whole of it, one image of a batch, or a range of its columns.

    Parameters
    ----------
    name : str
        Name of the image.
    extents : tuple of int
        Rows, vectors in a row, and channel blocks.
    config : Config
        The machine.
    spec : TensorSpec, optional
        Where it is in DRAM.
    copy : TensorSpec, optional
        Where else it is stored: outputs can only be written.
    resident : bool
        Whether all of it stays in the unified buffer from its first to its last use.
    given : bool
        Whether it is in DRAM from the start.
    vector_rows : int
        Rows of the buffer that a vector takes: 4 for int32.
    batch : int
        Images; those that are resident lie one below the other, block by block.
    over : Store, optional
        A resident image of the same size that this one replaces, vector by vector.
    skew : int
        Rows of the buffer between image rows that are not used, so that vectors below each other
        lie in different banks.
    line : int, optional
        Vectors from row to row in DRAM, if some are not used: so that rows begin at beats.
    """

    def __init__(
        self,
        name: str,
        extents: tuple[int, int, int],
        config: Config,
        *,
        spec: TensorSpec | None,
        resident: bool,
        copy: TensorSpec | None = None,
        given: bool = False,
        vector_rows: int = 1,
        batch: int = 1,
        over: "Store | None" = None,
        skew: int = 0,
        line: int | None = None,
    ) -> None:
        self.name = name
        self.height, self.width, self.blocks = extents
        self.spec, self.resident, self.vector_rows, self.batch = spec, resident, vector_rows, batch
        self._specs = [each for each in (spec, copy) if each is not None]
        self._config, self._given = config, given
        self._skew = skew
        self._pitch = self.width * vector_rows + skew
        self._block_pitch = batch * self.height * self._pitch
        self._first = 0  # row of the buffer of the first pixel
        # First column, and columns of a line in DRAM.
        self.column, self._line = 0, line or self.width
        # Rows of each channel block that are here, image by image.
        self._loaded = [[0] * self.blocks for _ in range(batch)]
        self._image, self._block = 0, 0
        self._buffer = None
        if resident:
            rows = self.blocks * self._block_pitch
            old = over and over._buffer
            self._buffer = Buffer(name, rows, bank=0, side=Side.BOTTOM, over=old)
        # Rows of the image in DRAM begin at beats only every few.
        row_bytes = self._line * vector_rows * config.row_bytes
        self.grain = BEAT_BYTES // math.gcd(BEAT_BYTES, row_bytes)

    @property
    def rows(self) -> int:
        """Rows of the unified buffer that one whole image takes."""
        return self.blocks * self.height * self._pitch

    @property
    def line(self) -> int:
        """Vectors in a row in DRAM; more than there are here if this is a range of columns."""
        return self._line

    @property
    def strings(self) -> bool:
        """Whether its rows are strings of bytes: see dense mode."""
        return self.spec is not None and self.spec.strings is not None

    @property
    def skewed(self) -> bool:
        """Whether rows of the buffer between image rows are not used."""
        return self._skew > 0

    @property
    def given(self) -> bool:
        """Whether it is in DRAM from the start."""
        return self._given

    @property
    def stored(self) -> bool:
        """Whether what is computed goes to DRAM."""
        return bool(self._specs) and not self._given

    def unread(self) -> "Store":
        """Return the same image, of which nothing is loaded yet."""
        unread = copy.copy(self)
        unread._loaded = [[0] * self.blocks for _ in range(self.batch)]
        return unread

    def part(self, image: int = 0, columns: range | None = None) -> "Store":
        """Return one image of the batch, and of that some columns."""
        part = copy.copy(self)
        columns = columns or range(self.width)
        if self.batch > 1:
            part.batch, part._image = 1, image
            part._first += image * self.height * self._pitch
            part._specs = [
                replace(spec.one, offset=spec.offset_of(image, self._config))
                for spec in self._specs
            ]
            part.spec = part._specs[0] if self.spec is not None else None
        part._first += columns.start * self.vector_rows
        part.column, part.width = self.column + columns.start, len(columns)
        return part

    def some_blocks(self, blocks: range) -> "Store":
        """Return some channel blocks of one image; it must be there if it is resident."""
        part = copy.copy(self)
        part.blocks, part._block = len(blocks), self._block + blocks.start
        part._first += blocks.start * self._block_pitch
        row_bytes = self._line * self.vector_rows * self._config.row_bytes
        skipped = blocks.start * -(-self.height * row_bytes // BEAT_BYTES) * BEAT_BYTES
        part._specs = [replace(spec, offset=spec.offset + skipped) for spec in self._specs]
        return part

    def tall(self) -> "Store":
        """Return all images of a batch that are resident as one, which is not in DRAM."""
        tall = copy.copy(self)
        tall.height, tall.batch = self.batch * self.height, 1
        tall.spec, tall._specs, tall._given = None, [], False
        return tall

    def flat(self) -> "Store":
        """Return the same image as one column of all its pixels; it must be there if resident.

        Of an image of which there are only some columns it has the others, too.
        """
        flat = self._full_width()
        flat.height, flat.width, flat._line = self.height * self.line, 1, 1
        flat._pitch = self.vector_rows
        vector_bytes = self.vector_rows * self._config.row_bytes
        flat.grain = BEAT_BYTES // math.gcd(BEAT_BYTES, vector_bytes)
        return flat

    def alias(self, name: str, height: int, width: int) -> "Store":
        """Return the same pixels as images of another shape."""
        extents = (height, width, self.blocks)
        other = Store(name, extents, self._config, spec=None, resident=True, batch=self.batch)
        other._buffer = self._buffer
        return other

    def read(self, rows: range, layer: int) -> tuple[View, list[Op]]:
        """Return where rows can be read, and the LOADs that must come before."""
        rows = range(max(rows.start, 0), min(rows.stop, self.height))
        if self._buffer is None:
            rows = range(rows.start // self.grain * self.grain, rows.stop)
            view = self.strip(rows)
            return view, self.load(view, rows, layer)
        view, ops = self._whole(self._buffer), []
        if not self._given:
            return view, []
        loaded = self._loaded[self._image]
        stop = min(-(-rows.stop // self.grain) * self.grain, self.height)
        mine = range(self._block, self._block + self.blocks)
        for start, run in groupby(mine, key=loaded.__getitem__):
            if start < rows.stop:
                blocks = [block - self._block for block in run]
                part = self if len(blocks) == self.blocks else self.some_blocks(_range(blocks))
                line = part if self.width == self._line else part._full_width()
                ops += line.load(line._whole(self._buffer), range(start, stop), layer)
        for block in mine:
            loaded[block] = max(loaded[block], stop)
        return view, ops

    def open(self, rows: range, over: Iterable[View] = ()) -> View:
        """Return where rows can be written; perhaps in place of those that they are made from."""
        return self.strip(rows, over) if self._buffer is None else self._whole(self._buffer)

    def load(self, view: View, rows: range, layer: int) -> list[Op]:
        """Return the LOADs of rows."""
        return self._transfer(Opcode.LOAD, view, rows, layer, self._specs[0])

    def store(self, view: View, rows: range, layer: int) -> list[Op]:
        """Return the STOREs that must follow when rows are complete."""
        transfers = (
            self._transfer(Opcode.STORE, view, rows, layer, spec)
            for spec in ([] if self._given else self._specs)
        )
        return [op for ops in transfers for op in ops]

    def strip(
        self, rows: range, over: Iterable[View] = (), *, least: int = 0, bank: int | None = 0
    ) -> View:
        """Return a place for rows of the image that are not resident: of ``least`` rows or more."""
        pitch = self.width * self.vector_rows + self._skew
        block_pitch = len(rows) * pitch
        size = max(self.blocks * block_pitch, least)
        same = (rows, 0, pitch, block_pitch, size)
        old = (
            view.buffer
            for view in over
            if (view.rows, view.row, view.pitch, view.block_pitch, view.buffer.rows) == same
        )
        buffer = Buffer(
            f"{self.name}, rows {rows.start} to {rows.stop - 1}",
            size,
            bank=bank,
            side=Side.TOP,
            over=next(old, None),
        )
        return View(buffer, rows, 0, pitch, block_pitch)

    def _whole(self, buffer: Buffer) -> View:
        return View(buffer, range(self.height), self._first, self._pitch, self._block_pitch)

    def _full_width(self) -> "Store":
        whole = copy.copy(self)
        whole._first -= self.column * self.vector_rows
        whole.column, whole.width = 0, self._line
        return whole

    def _transfer(
        self, opcode: Opcode, view: View, rows: range, layer: int, spec: TensorSpec
    ) -> list[Op]:
        """Return one command, or one for each block if it has only some columns."""
        vector_bytes = self.vector_rows * self._config.row_bytes
        row_bytes = self._line * vector_bytes
        whole = self.height * row_bytes
        block_bytes = -(-whole // BEAT_BYTES) * BEAT_BYTES
        fields = {
            "window": spec.window,
            "flip": int(spec.dtype == "uint8"),
            "offset": spec.offset + rows.start * row_bytes + self.column * vector_bytes,
        }
        shapes = []
        if self.width == self._line and view.pitch == row_bytes // self._config.row_bytes:
            count = len(rows) * view.pitch
            complete = len(rows) == self.height and whole % BEAT_BYTES == 0
            if self.blocks == 1:
                shapes = [(0, {"lines": 1, "rows": count, "stride": 0, "pitch": 0})]
            elif complete and view.block_pitch == count:
                shapes = [(0, {"lines": 1, "rows": self.rows, "stride": 0, "pitch": 0})]
            else:
                stride = {"stride": block_bytes, "pitch": view.block_pitch}
                shapes = [(0, {"lines": self.blocks, "rows": count} | stride)]
        else:
            count = self.width * self.vector_rows
            stride = {"stride": row_bytes, "pitch": view.pitch}
            if len(rows) == 1:
                stride = {"stride": 0, "pitch": 0}
            shape = {"lines": len(rows), "rows": count} | stride
            shapes = [(block, shape) for block in range(self.blocks)]
        barrier = opcode == Opcode.LOAD and spec.window == Window.SCRATCH
        ops = []
        for block, shape in shapes:
            place = view.at(rows.start, 0, block)
            offset = {"offset": fields["offset"] + block * block_bytes}
            ops.append(Op(opcode, layer, fields | offset | shape, {"row": place}, barrier=barrier))
        return ops


def _range(numbers: list[int]) -> range:
    """Return consecutive numbers as a range."""
    return range(numbers[0], numbers[-1] + 1)
