"""Fields of channel records: the current block's, while the next block's arrive."""

from collections.abc import Collection, Iterator

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import RECORD, RecordForm
from tpulite.arch.numerics import Rounding
from tpulite_rtl.lib.layout import struct_layout

__all__ = ["RecordFields", "holds_foreign_rounding", "record_row"]

_RECORD_BITS = 8 * RECORD_BYTES
_BIAS_BITS = 32


def record_row(config: Config) -> data.StructLayout:
    """Return the payload that carries a row of a block's records: its bytes, and which it is."""
    return data.StructLayout(
        {
            "data": 8 * config.row_bytes,
            "index": range(config.record_rows),
            "form": len(RecordForm) - 1,
        }
    )


def holds_foreign_rounding(config: Config, row: data.View) -> Value:
    """Tell whether a :func:`record_row` holds a rounding that the machine lacks, or none at all.

    In the short form only the rows of the common record are looked at.
    """
    row_bits = 8 * config.row_bytes
    rows = max(1, RECORD_BYTES // config.row_bytes)  # of one record
    row_in_record, first = divmod(RECORD.offsets()["rounding"], row_bits)
    bits = struct_layout(RECORD)["rounding"].width
    known = [Rounding[name.upper()] for name in config.roundings]
    foreign = [
        ~Cat(row.data[column : column + bits] == rounding for rounding in known).any()
        for column in range(first, row_bits, _RECORD_BITS)  # a wide row has two records
    ]
    return Mux(
        row.form == RecordForm.SHORT,
        (row.index == row_in_record) & foreign[0],
        (row.index % rows == row_in_record) & Cat(foreign).any(),
    )


class RecordFields(wiring.Component):
    """Some fields of the channel records of an n-block, in shadow and active registers.

    Rows are written into the shadow registers; ``swap`` copies all of these into the active ones,
    which ``o`` shows from the next cycle on.
    A row that comes with ``swap`` belongs to the block after it.

    Parameters
    ----------
    config : Config
        Geometry.
    names : collection of str
        Fields of :data:`tpulite.arch.isa.RECORD` to keep.
    """

    def __init__(self, config: Config, names: Collection[str]) -> None:
        self.config = config
        self.names = tuple(names)
        members = struct_layout(RECORD).members
        self._fields = data.StructLayout({name: members[name] for name in self.names})
        super().__init__(
            {
                # Rows of the next block's records.
                "i": In(stream.Signature(record_row(config), always_ready=True)),
                # The next block becomes the current one.
                "swap": In(1),
                # The fields of each channel of the current block.
                "o": Out(data.ArrayLayout(self._fields, config.array_size)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        shadow = Signal(self.o.shape(), reset_less=True)
        active = Signal(self.o.shape(), reset_less=True)
        m.d.comb += self.o.eq(active)
        with m.If(self.swap):
            m.d.sync += active.eq(shadow)

        row = self.i.payload
        short = row.form == RecordForm.SHORT
        offsets = RECORD.offsets()
        for channel in range(self.config.array_size):
            record = data.View(self._fields, shadow[channel])
            for name in self.names:
                target = record[name]
                full_bit = _RECORD_BITS * channel + offsets[name]
                short_bit = self._short_bit(channel, name, offsets[name])
                for part, full, here in self._pieces(len(target), full_bit, short_bit):
                    source = row.data[full[1]]
                    if full[1] != here[1]:
                        source = Mux(short, row.data[here[1]], source)
                    with m.If(self.i.valid & (row.index == Mux(short, here[0], full[0]))):
                        m.d.sync += target[part].eq(source)
        return m

    def _short_bit(self, channel: int, name: str, offset: int) -> int:
        """Return where a field starts in the short form."""
        if name != "bias":
            return offset
        biases = self.config.short_record_rows - 4
        return 8 * self.config.row_bytes * biases + _BIAS_BITS * channel

    def _pieces(
        self, width: int, full_bit: int, short_bit: int
    ) -> Iterator[tuple[slice, tuple[int, slice], tuple[int, slice]]]:
        """Cut a field where a row ends: bits of the field, and row and bits in either form."""
        row_bits = 8 * self.config.row_bytes
        start = 0
        while start < width:
            places = [divmod(bit + start, row_bits) for bit in (full_bit, short_bit)]
            size = min([width - start] + [row_bits - column for _, column in places])
            full, short = [(row, slice(column, column + size)) for row, column in places]
            yield slice(start, start + size), full, short
            start += size
