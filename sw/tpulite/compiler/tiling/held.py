"""Operands that arrive bit by bit: buffers, and how far each of them has been loaded."""

from collections.abc import Hashable

from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.ops import Buffer, Op, Region

__all__ = ["Held"]


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
    offset : int
        First byte of the constant in its window.
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
        offset: int,
        rows: int,
        row_bytes: int,
        bank: int | None = None,
    ) -> None:
        self._name, self._layer, self._offset, self._bank = name, layer, offset, bank
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
        fields = {
            "window": Window.CONSTANTS,
            "offset": self._offset + missing.start * rows * self._row_bytes,
            "lines": 1,
            "rows": len(missing) * rows,
        }
        into = Region(buffer, (missing.start - whole.start) * rows)
        return region, [Op(Opcode.LOAD, self._layer, fields, {"row": into})]
