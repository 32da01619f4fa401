"""Parameters of a VECTOR command, as they come out of the unified buffer."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import RECORD_BYTES, WORD_BYTES, Config
from tpulite.arch.effects import ELEMENTWISE, parameter_rows
from tpulite.arch.isa import (
    LUT_BYTES,
    OPERANDS,
    RECORD,
    WORDS_BYTES,
    RecordForm,
    VectorOp,
    operations,
)
from tpulite_rtl.lib.layout import operation_shape, struct_layout
from tpulite_rtl.vpu.record_fields import holds_foreign_rounding, record_row

__all__ = ["VectorParameters", "table_row"]

_RECORD_BITS = 8 * RECORD_BYTES


def _single_rows(config: Config) -> int:
    """Return the rows of one record, and of the operands."""
    return -(-RECORD_BYTES // config.row_bytes)


def table_row(config: Config) -> data.StructLayout:
    """Return the payload that carries a row of a table: its bytes, and which it is.

    With softmax ``planes`` says for which bytes of words; a table of bytes is for all of them.
    """
    return data.StructLayout(
        {
            "data": 8 * config.row_bytes,
            "index": range(LUT_BYTES // config.row_bytes),
            "planes": WORD_BYTES if config.has_softmax else 0,
        }
    )


class VectorParameters(wiring.Component):
    """Keep the operands and the channel records of the current command; pass its table on.

    Parameters
    ----------
    config : Config
        Geometry and roundings.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._rows = [parameter_rows(operation, config) for operation in operations(config)]
        super().__init__(
            {
                # A new command starts; its rows come after this cycle.
                "start": In(1),
                # What the command computes, from the cycle after ``start`` on.
                "operation": In(operation_shape(config)),
                # The rows of its parameters, in order.
                "i": In(stream.Signature(unsigned(8 * config.row_bytes), always_ready=True)),
                # Those of the last ADD, SUB or MUL.
                "operands": Out(struct_layout(OPERANDS)),
                # Record of each channel; the same for all channels if the command has just one.
                "records": Out(data.ArrayLayout(struct_layout(RECORD), config.array_size)),
                # Rows of the table of a LUT, as they come.
                "o_table": Out(stream.Signature(table_row(config), always_ready=True)),
                # All rows were here in an earlier cycle.
                "loaded": Out(1),
                # The row that comes in this cycle holds a rounding that the machine lacks, or none.
                "foreign": Out(1),
                # Which row comes next.
                "index": Out(range(max(self._rows) + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        single = _single_rows(config)

        with m.If(self.start):
            m.d.sync += self.index.eq(0)
        with m.Elif(self.i.valid):
            m.d.sync += self.index.eq(self.index + 1)
        count = Array(self._rows)[self.operation]
        m.d.comb += self.loaded.eq(self.index == count)

        # What the row belongs to. Words are followed by a record, whose index begins at 0 again.
        planes = 1 << self.index[exact_log2(LUT_BYTES // config.row_bytes) :][:2]
        is_table, is_full, is_operands = Signal(), Signal(), Signal()
        is_paired = self.operation.matches(*ELEMENTWISE)
        is_words = Cat(self.operation == op for op in (VectorOp.NORM, VectorOp.SHARE)).any()
        in_words = is_words & (self.index < WORDS_BYTES // config.row_bytes)
        record = Signal(record_row(config))
        m.d.comb += [
            is_table.eq((self.operation == VectorOp.LUT) | in_words),
            is_full.eq(self.operation == VectorOp.AFFINE),
            is_operands.eq(is_paired & (self.index < single)),
            record.data.eq(self.i.payload),
            record.index.eq(self.index - Mux(is_paired, single, 0)),
            record.form.eq(Mux(is_full, RecordForm.FULL, RecordForm.SHORT)),
            self.foreign.eq(
                self.i.valid & ~is_table & ~is_operands & holds_foreign_rounding(config, record)
            ),
            self.o_table.payload.data.eq(self.i.payload),
            self.o_table.payload.index.eq(self.index),
            self.o_table.payload.planes.eq(Mux(in_words, planes, ~0)),
            self.o_table.valid.eq(self.i.valid & is_table),
        ]
        row_bits = 8 * config.row_bytes
        for start in range(0, OPERANDS.width, row_bits):
            part = self.operands.as_value()[start : start + row_bits]
            with m.If(self.i.valid & is_operands & (self.index == start // row_bits)):
                m.d.sync += part.eq(self.i.payload)
        self._store_records(m, record, self.i.valid & ~is_table & ~is_operands)
        return m

    def _store_records(self, m: Module, row: data.View, enable: Value) -> None:
        """Write a row into its records, or a row of the only record into all of them."""
        row_bits = 8 * self.config.row_bytes
        size = min(row_bits, _RECORD_BITS)
        full = row.form == RecordForm.FULL
        for channel in range(self.config.array_size):
            record = self.records[channel].as_value()
            for start in range(0, RECORD.width, size):
                index, column = divmod(_RECORD_BITS * channel + start, row_bits)
                source = row.data[:size]
                if column:
                    source = Mux(full, row.data[column : column + size], source)
                with m.If(enable & (row.index == Mux(full, index, start // row_bits))):
                    m.d.sync += record[start : start + size].eq(source)
