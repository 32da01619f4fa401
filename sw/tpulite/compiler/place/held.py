"""Operands that arrive bit by bit: buffers, and how far each of them has been loaded."""

from collections.abc import Hashable

from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.compiler.place.constants import ConstantPool


class Held:
    """Tiles of a constant in the unified buffer.

    The constant is a sequence of tiles of equally many rows. A buffer holds some that follow one
    another, and they are loaded in order, as far as they are needed.

    Parameters
    ----------
    name : str
        For error messages.
    layer : int
        Index of the layer that uses it.
    data : bytes
        The constant.
    pool : ConstantPool
        Where to keep it; where it has a place of its own if constants stay.
    rows, row_bytes : int
        Rows of a tile, and bytes of a row.
    bank : int, optional
        Bank of the first row.
    """

    def __init__(
        self,
        name: str,
        layer: int,
        *,
        data: bytes,
        pool: ConstantPool,
        rows: int,
        row_bytes: int,
        bank: int | None = None,
    ) -> None:
        self._name, self._layer, self._bank = name, layer, bank
        self._offset = pool.add(data)
        self._pins, self._fixed = pool.pins, None
        if self._pins is not None:
            self._fixed = self._pins.place(name, data, len(data) // row_bytes, bank)
        self._here: set[int] = set()
        self._rows, self._row_bytes = rows, row_bytes
        self._buffers: dict[Hashable, Buffer] = {}
        self._loaded: dict[Hashable, int] = {}

    def take(self, key: Hashable, whole: range, wanted: range) -> tuple[Region, list[Op]]:
        """Return where some tiles lie, and the LOAD of those that are not there yet.

        Parameters
        ----------
        key : hashable
            Key of the buffer.
        whole : range
            Tiles that it holds in the end.
        wanted : range
            Those that are needed now; tiles are asked for in order.
        """
        if self._fixed is not None:
            return self._take_fixed(self._fixed, wanted)
        rows = self._rows
        if key not in self._buffers:
            self._buffers[key] = Buffer(self._name, len(whole) * rows, bank=self._bank)
            self._loaded[key] = whole.start
        buffer = self._buffers[key]
        missing = range(max(self._loaded[key], wanted.start), wanted.stop)
        region = Region(buffer, (wanted.start - whole.start) * rows)
        if not missing:
            return region, []
        self._loaded[key] = missing.stop
        into = Region(buffer, (missing.start - whole.start) * rows)
        return region, [self._load(missing, into)]

    def _take_fixed(self, buffer: Buffer, wanted: range) -> tuple[Region, list[Op]]:
        """Return tiles of a constant that stays, and the LOADs of those that nobody has loaded."""
        assert self._pins is not None
        missing = [] if self._pins.loaded else [tile for tile in wanted if tile not in self._here]
        self._here.update(wanted)
        loads = []
        if missing:
            tiles = range(missing[0], missing[-1] + 1)  # they are asked for in order
            loads = [self._load(tiles, Region(buffer, tiles.start * self._rows))]
        return Region(buffer, wanted.start * self._rows), loads

    def _load(self, tiles: range, into: Region) -> Op:
        fields = {
            "window": Window.CONSTANTS,
            "offset": self._offset + tiles.start * self._rows * self._row_bytes,
            "lines": 1,
            "rows": len(tiles) * self._rows,
        }
        return Op(Opcode.LOAD, self._layer, fields, {"row": into})
