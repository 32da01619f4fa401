"""Works out what a CONV asks of each part of the matrix unit: all its products in one place."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Axis, Drain, Engine, Opcode, RecordForm
from tpulite.arch.timing import PREPARATION
from tpulite_rtl.lib.layout import INDEX_BITS, command_layout, with_int16
from tpulite_rtl.lib.serial_product import DIGITS, accumulate, less_one
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND
from tpulite_rtl.mxu.slots import VECTOR_COMMAND, vector_command
from tpulite_rtl.mxu.vector_share import share_vectors
from tpulite_rtl.mxu.weight_sequencer import WEIGHT_COMMAND, rows_of_tiles, weight_command
from tpulite_rtl.vpu.record_loader import RECORD_COMMAND

__all__ = ["PREPARED", "REGIONS", "REGION_BITS", "Preparation", "prepared_layout"]

REGION_BITS = 27
"""Width of the last row of a region: two products of 11 by 14 bits and some more."""

REGIONS = ("accumulators", "weights", "records", "output", "image")
"""Regions of a CONV, in the order in which they are checked."""

PREPARED = data.StructLayout(
    {
        "wait": len(Engine),
        "prefetch": 1,
        "index": INDEX_BITS,
        "requantizes": 1,
        "outside": 1,  # a region leaves its memory: the shares are void
        "weights": WEIGHT_COMMAND,
        "records": RECORD_COMMAND,
        "vectors": VECTOR_COMMAND,
        "drains": DRAIN_COMMAND,
    }
)
"""A CONV whose shares are worked out."""


def prepared_layout(config: Config) -> data.StructLayout:
    """Return :data:`PREPARED` of a machine."""
    mine = {
        "weights": weight_command(config),
        "vectors": vector_command(config),
        "drains": with_int16(config, DRAIN_COMMAND),
    }
    return data.StructLayout({**PREPARED.members, **mine})


class Preparation(wiring.Component):
    """Compute the shares of each CONV, and whether its regions lie in their memories.

    A command is prepared while it is at the head of its queue, in :data:`PREPARATION` cycles, and
    stays there until it is accepted: what needs no arithmetic is not stored again.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Commands of the queue.
                "i": In(stream.Signature(command_layout(Opcode.CONV, config))),
                # The same commands, prepared.
                "o": Out(stream.Signature(prepared_layout(config))),
                # Last row of the first region that leaves its memory, from the cycle after the
                # offer of its command on.
                "address": Out(REGION_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        command, prepared = self.i.payload, self.o.payload

        # One-hot: the cycles of the products, the last of which checks the regions, and waiting.
        cycle = Signal(PREPARATION + 1, init=1)
        m.d.comb += [
            self.o.valid.eq(cycle[-1]),
            self.i.ready.eq(cycle[-1] & self.o.ready),
        ]
        with m.If(Mux(cycle[0], self.i.valid, ~cycle[-1] | self.o.ready)):
            m.d.sync += cycle.eq(cycle.rotate_left(1))
        last_rows = self._regions(m, cycle[: 1 + DIGITS])
        self._check_regions(m, cycle[1 + DIGITS], last_rows)
        share_vectors(m, self.config, command, prepared.vectors, cycle[:-1])
        by_y = command.inner == Axis.Y
        outputs = Mux(by_y, command.rows, command.columns)
        m.d.comb += [
            prepared.wait.eq(command.wait),
            prepared.prefetch.eq(command.prefetch),
            prepared.index.eq(command.index),
            prepared.requantizes.eq(command.drain == Drain.REQUANTIZE),
            prepared.weights.weight_row.eq(command.weight_row),
            prepared.records.record_row.eq(command.record_row),
            prepared.records.record_form.eq(command.record_form),
            prepared.records.index.eq(command.index),
            prepared.drains.inner_last.eq(outputs - 1),
            prepared.drains.inner_step.eq(Mux(by_y, command.out_pitch, command.out_step)),
            prepared.drains.outer_step.eq(Mux(by_y, command.out_step, command.out_pitch)),
        ]
        if self.config.int4:
            m.d.comb += prepared.weights.int4.eq(command.int4)
        for share in (prepared.vectors, prepared.drains):
            members = share.shape().members
            same = [name for name in members if name in command.shape().members]
            m.d.comb += [share[name].eq(command[name]) for name in same]
        return m

    def _regions(self, m: Module, cycles: Value) -> dict[str, Value]:
        """Return the last row of each region, and say what of them the parts need."""
        config, command = self.config, self.i.payload
        last_row, last_column, last_block, last_image_row = (
            less_one(m, name, command[name], cycles)
            for name in ("rows", "columns", "blocks", "height")
        )
        accumulators = accumulate(
            m,
            "accumulators",
            cycles,
            (command.acc_row + command.columns - 1).as_unsigned(),
            (last_row, command.columns),
        )

        # A depthwise command has one tile, and one block.
        kernel, first_tiles = Signal(8, reset_less=True), Signal(8)
        taps = [
            Mux(bit, command.kernel_columns, 0) << at for at, bit in enumerate(command.kernel_rows)
        ]
        m.d.comb += first_tiles.eq(Mux(command.depthwise, 0, sum(taps) - 1))
        with m.If(cycles[0]):
            m.d.sync += kernel.eq(sum(taps))
        last_tile = accumulate(m, "tiles", cycles, first_tiles, (last_block, kernel))
        int4 = command.int4 if config.int4 else None

        short = command.record_form == RecordForm.SHORT
        records = Mux(short, config.short_record_rows - 1, config.record_rows - 1)
        output = accumulate(
            m,
            "output",
            cycles,
            command.out_row + Mux(command.drain == Drain.RAW, RAW_ROWS - 1, 0),
            (last_row, command.out_pitch),
            (last_column, command.out_step),
        )
        image = accumulate(
            m,
            "image",
            cycles,
            (command.act_row + command.width - 1).as_unsigned(),
            (last_block, command.act_block_pitch),
            (last_image_row, command.act_pitch),
        )
        m.d.comb += [
            self.o.payload.weights.last_tile.eq(last_tile),
            self.o.payload.drains.last_tile.eq(last_tile),
            self.o.payload.drains.last_row.eq(accumulators),
        ]
        return {
            "accumulators": accumulators,
            "weights": command.weight_row + rows_of_tiles(config, last_tile, int4),
            "records": command.record_row + records,
            "output": output,
            "image": image,
        }

    def _check_regions(self, m: Module, now: Value, last_rows: dict[str, Value]) -> None:
        """Say whether a region leaves its memory; a cycle later, where the first one ends."""
        config, drain = self.config, self.i.payload.drain
        used = {"records": drain == Drain.REQUANTIZE, "output": drain != Drain.KEEP}
        outside = Signal(len(REGIONS), reset_less=True)
        m.d.comb += self.o.payload.outside.eq(outside.any())
        with m.If(now):
            for flag, region in zip(outside, REGIONS, strict=True):
                limit = config.acc_rows if region == "accumulators" else config.ub_rows
                m.d.sync += flag.eq(used.get(region, 1) & (last_rows[region] >= limit))
        for flag, region in reversed(list(zip(outside, REGIONS, strict=True))):
            with m.If(flag):
                m.d.sync += self.address.eq(last_rows[region])
