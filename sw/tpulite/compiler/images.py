"""Images while a network runs: in the unified buffer, or in DRAM and here a strip at a time."""

import math
from dataclasses import dataclass

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


class Store:
    """Where an image is kept.

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
    ) -> None:
        self.name = name
        self.height, self.width, self.blocks = extents
        self.spec, self.resident, self.vector_rows = spec, resident, vector_rows
        self._specs = [each for each in (spec, copy) if each is not None]
        self._config, self._given = config, given
        self._pitch = self.width * vector_rows
        self._loaded = 0
        self._buffer = None
        if resident:
            self._buffer = Buffer(name, self.rows, bank=0, side=Side.BOTTOM)
        # Rows of the image in DRAM begin at beats only every few.
        row_bytes = self._pitch * config.row_bytes
        self.grain = BEAT_BYTES // math.gcd(BEAT_BYTES, row_bytes)

    @property
    def rows(self) -> int:
        """Rows of the unified buffer that the whole image takes."""
        return self.blocks * self.height * self._pitch

    def alias(self, name: str, height: int, width: int) -> "Store":
        """Return the same pixels as an image of another shape."""
        extents = (height, width, self.blocks)
        other = Store(name, extents, self._config, spec=None, resident=True)
        other._buffer = self._buffer
        return other

    def read(self, rows: range, layer: int) -> tuple[View, list[Op]]:
        """Return where rows can be read, and the LOADs that must come before."""
        rows = range(max(rows.start, 0), min(rows.stop, self.height))
        rows = range(rows.start // self.grain * self.grain, rows.stop)
        if self._buffer is None:
            view = self._strip(rows)
            return view, [self._transfer(Opcode.LOAD, view, rows, layer, self._specs[0])]
        view = View(self._buffer, range(self.height), 0, self._pitch, self.height * self._pitch)
        missing = range(self._loaded, rows.stop)
        if not self._given or not missing:
            return view, []
        if missing.stop != self.height:
            missing = range(missing.start, missing.stop // self.grain * self.grain)
            if missing.stop < rows.stop:
                missing = range(missing.start, min(missing.stop + self.grain, self.height))
        self._loaded = missing.stop
        return view, [self._transfer(Opcode.LOAD, view, missing, layer, self._specs[0])]

    def open(self, rows: range) -> View:
        """Return where rows can be written."""
        if self._buffer is not None:
            return View(self._buffer, range(self.height), 0, self._pitch, self.height * self._pitch)
        return self._strip(rows)

    def store(self, view: View, rows: range, layer: int) -> list[Op]:
        """Return the STOREs that must follow when rows are complete."""
        return [self._transfer(Opcode.STORE, view, rows, layer, spec) for spec in self._specs]

    def _strip(self, rows: range) -> View:
        pitch = len(rows) * self._pitch
        buffer = Buffer(f"{self.name} {rows}", self.blocks * pitch, bank=0, side=Side.TOP)
        return View(buffer, rows, 0, self._pitch, pitch)

    def _transfer(
        self, opcode: Opcode, view: View, rows: range, layer: int, spec: TensorSpec
    ) -> Op:
        row_bytes = self._pitch * self._config.row_bytes
        whole = self.height * row_bytes
        fields = {
            "window": spec.window,
            "flip": int(spec.dtype == "uint8"),
            "offset": spec.offset + rows.start * row_bytes,
            "stride": -(-whole // BEAT_BYTES) * BEAT_BYTES,
            "lines": self.blocks,
            "rows": len(rows) * self._pitch,
            "pitch": view.block_pitch,
        }
        if self.blocks == 1:
            fields |= {"stride": 0, "pitch": 0}
        elif len(rows) == self.height and whole % BEAT_BYTES == 0:
            fields |= {"lines": 1, "rows": self.rows, "stride": 0, "pitch": 0}
        barrier = opcode == Opcode.LOAD and spec.window == Window.SCRATCH
        place = view.at(rows.start)
        return Op(opcode, layer, fields, {"row": place}, barrier=barrier)
