"""Issues activation vectors: the loop over k-tiles and vectors that sets the pace of the MXU."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Drain, Opcode, RecordForm
from tpulite.arch.registers import Fault
from tpulite_rtl.lib.interfaces import FAULT, ROW_BITS, ReadPortSignature
from tpulite_rtl.lib.layout import INDEX_BITS, field_shape

__all__ = ["VECTOR_COMMAND", "VectorSequencer", "drain_interval"]

_FIELDS = ("m", "k_tiles", "act_row", "act_pitch", "weight_zero_point", "drain", "record_form")

VECTOR_COMMAND = data.StructLayout(
    {**{name: field_shape(Opcode.MATMUL, name) for name in _FIELDS}, "index": INDEX_BITS}
)
"""What the sequencer needs of a MATMUL."""


def drain_interval(config: Config, *, raw: bool) -> int:
    """Return the cycles from one drained vector to the next."""
    interval = config.array_size // config.lanes
    return max(RAW_ROWS, interval) if raw else interval


class VectorSequencer(wiring.Component):
    """Read the activations of MATMULs, one vector a cycle, without a gap between tiles or commands.

    A k-tile starts when its weight tile is there and N cycles after the previous start; the last
    k-tile of a command that drains also waits for the channel records and for the pace of the
    requantizer. An accepted request of cycle t enters the array in cycle t + 2.

    Parameters
    ----------
    config : Config
        Geometry.

    Members
    -------
    command : In(stream.Signature(VECTOR_COMMAND))
        Commands in order, each with its tokens taken.
    read : Out(ReadPortSignature(config))
        Read port; its responses go straight into the array.
    first : Out(1)
        The response of this cycle is the first vector of a tile.
    tile_ready : In(1)
        The next weight tile is there.
    start : Out(1)
        A k-tile starts in this cycle.
    zero_point : Out(signed(8))
        Weight zero point of the tile that starts.
    block_ready : In(1)
        The channel records of the next requantizing command are there.
    claim : Out(1)
        These records are used by the tile that starts.
    stop : In(1)
        Issue nothing more.
    busy : Out(1)
        A command is being issued.
    issued, refused, starved : Out(1)
        A vector was issued; the buffer refused one; operands are missing.
    index : Out(INDEX_BITS)
        Command being issued.
    fault : Out(FAULT)
        BUFFER fault of a k-tile's activations.
    """

    command: stream.Interface
    read: wiring.PureInterface
    first: Signal
    tile_ready: Signal
    start: Signal
    zero_point: Signal
    block_ready: Signal
    claim: Signal
    stop: Signal
    busy: Signal
    issued: Signal
    refused: Signal
    starved: Signal
    index: Signal
    fault: data.View

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(VECTOR_COMMAND)),
                "read": Out(ReadPortSignature(config)),
                "first": Out(1),
                "tile_ready": In(1),
                "start": Out(1),
                "zero_point": Out(signed(8)),
                "block_ready": In(1),
                "claim": Out(1),
                "stop": In(1),
                "busy": Out(1),
                "issued": Out(1),
                "refused": Out(1),
                "starved": Out(1),
                "index": Out(INDEX_BITS),
                "fault": Out(FAULT),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        n, rows = config.array_size, config.ub_rows

        command = Signal(VECTOR_COMMAND)
        active = Signal()
        tile_row = Signal(ROW_BITS + 1)  # activations of the current k-tile
        offset = Signal(command.m.shape())  # vector in the tile
        tiles_left = Signal(command.k_tiles.shape())  # after the current one
        row = Signal(ROW_BITS + 2)
        tile_end = Signal(ROW_BITS + 2)
        at_start, at_end, last_tile = Signal(), Signal(), Signal()
        m.d.comb += [
            at_start.eq(offset == 0),
            at_end.eq(offset == command.m - 1),
            last_tile.eq(tiles_left == 0),
            row.eq(tile_row + offset),
            tile_end.eq(tile_row + command.m - 1),
        ]

        # The pace: counters of cycles since things happened.
        tile_gap = Signal(range(n))
        drain_gap = Signal(range(max(2, drain_interval(config, raw=True))))
        record_age = Signal(range(config.record_rows + 1), init=config.record_rows)
        record_rows = Mux(
            command.record_form == RecordForm.SHORT, config.short_record_rows, config.record_rows
        )
        requantizes = (command.drain == Drain.REQUANTIZE) & last_tile
        drains = (command.drain != Drain.KEEP) & last_tile
        # The last vector of a command reports its completion through the requantizer, so it keeps
        # the requantizer's pace even if nothing is drained.
        reports = drains | (last_tile & at_end)
        operands = self.tile_ready & (~requantizes | self.block_ready)
        in_pace = (tile_gap == 0) & (~requantizes | (record_age >= record_rows))
        outside = Signal()
        m.d.comb += [
            outside.eq(active & at_start & (tile_end >= rows)),
            self.read.request.payload.eq(row),
            self.read.request.valid.eq(
                active
                & ~self.stop
                & ~outside
                & (~at_start | (operands & in_pace))
                & (~reports | (drain_gap == 0))
            ),
            self.issued.eq(self.read.request.valid & self.read.request.ready),
            self.refused.eq(self.read.request.valid & ~self.read.request.ready),
            self.starved.eq(active & at_start & ~operands),
            self.start.eq(self.issued & at_start),
            self.claim.eq(self.start & requantizes),
            self.zero_point.eq(command.weight_zero_point),
            self.busy.eq(active),
            self.index.eq(command.index),
            self.fault.valid.eq(outside),
            self.fault.code.eq(Fault.BUFFER),
            self.fault.index.eq(command.index),
            self.fault.address.eq(tile_end),
        ]
        with m.If(self.start):
            m.d.sync += tile_gap.eq(n - 1)
        with m.Elif(tile_gap != 0):
            m.d.sync += tile_gap.eq(tile_gap - 1)
        with m.If(self.claim):
            m.d.sync += record_age.eq(1)
        with m.Elif(record_age != config.record_rows):
            m.d.sync += record_age.eq(record_age + 1)
        with m.If(self.issued & reports):
            raw = command.drain == Drain.RAW
            m.d.sync += drain_gap.eq(
                Mux(raw, drain_interval(config, raw=True), drain_interval(config, raw=False)) - 1
            )
        with m.Elif(drain_gap != 0):
            m.d.sync += drain_gap.eq(drain_gap - 1)

        # The loops. The next command is loaded in the cycle that issues the last vector.
        finished = Signal()
        m.d.comb += [
            finished.eq(self.issued & at_end & last_tile),
            self.command.ready.eq((~active | finished) & ~self.stop),
        ]
        with m.If(self.issued):
            m.d.sync += offset.eq(offset + 1)
            with m.If(at_end):
                m.d.sync += [
                    offset.eq(0),
                    tiles_left.eq(tiles_left - 1),
                    tile_row.eq(tile_row + command.act_pitch),
                ]
        with m.If(finished):
            m.d.sync += active.eq(0)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                command.eq(self.command.payload),
                active.eq(1),
                offset.eq(0),
                tiles_left.eq(self.command.payload.k_tiles - 1),
                tile_row.eq(self.command.payload.act_row),
            ]

        started = Signal()
        m.d.sync += [started.eq(self.start), self.first.eq(started)]
        return m
