"""The VPU's drain path: complete sums become rows of the unified buffer; it has the lanes."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Engine
from tpulite.arch.timing import REQUANTIZER
from tpulite_rtl.lib.interfaces import ROW_BITS, WritePortSignature
from tpulite_rtl.lib.pipeline import delay
from tpulite_rtl.vpu.record_fields import RecordFields, record_row
from tpulite_rtl.vpu.requantizer_lane import STAGES
from tpulite_rtl.vpu.shared_lane import FIELD_STAGES, LanesSignature, SharedLane

__all__ = ["Requantizer", "requant_input"]

# Record fields that are used in a stage, counted from the cycle in which sums enter here: a cycle
# before they are in the lane. They are copied while the first vector is in the stage before.
_FIELDS = {
    stage + 1: tuple(name for name, used in FIELD_STAGES.items() if used == stage)
    for stage in sorted(set(FIELD_STAGES.values()))
}


def _names(records: data.View) -> list[str]:
    """Return the fields that a lane takes as they are."""
    return [name for name in records.shape().elem_shape.members if name != "gain"]


def requant_input(config: Config) -> data.StructLayout:
    """Return the payload that carries a vector of sums and what is to become of it.

    Results of ``int16`` are int16, of which the upper byte is written. With ``again`` the sums are
    those of the transfer before, and the lower byte with its top bit inverted is written.
    """
    return data.StructLayout(
        {
            "sums": data.ArrayLayout(signed(32), config.array_size),
            "raw": 1,  # write the sums themselves
            "first": 1,  # first vector of a requantizing command
            "write": 1,  # 0: nothing to write, only a completion
            "row": ROW_BITS,  # (first) row to write
            "done": 1,  # last vector of its command
            "signal": len(Engine),  # tokens to give when that is written
            **({"int16": 1, "again": 1} if config.int16 else {}),
        }
    )


class Requantizer(wiring.Component):
    """Requantize vectors of sums, or pass them raw, and write them to the unified buffer.

    Each result equals :func:`tpulite.arch.numerics.requantize`, bit for bit. Nothing here ever
    waits: the buffer always accepts, and the source keeps the pace. The vector path uses the lanes
    in the cycles in which no sums of the matrix unit enter them.

    A requantized vector takes N / lanes cycles and is written ``latency`` cycles after it entered.
    A raw vector takes ``max(4, N / lanes)`` cycles, and its four rows are written in consecutive
    cycles; the last one leaves ``STAGES`` cycles after the last of these.

    Parameters
    ----------
    config : Config
        Geometry, lanes and roundings.

    Attributes
    ----------
    latency : int
        Cycles from a requantized vector at ``i`` to its row at ``write``.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.latency = REQUANTIZER + config.array_size // config.lanes - 1
        super().__init__(
            {
                # Sums. The next transfer comes N / lanes cycles after a requantized vector and
                # ``max(4, N / lanes)`` cycles after a raw one, or later.
                "i": In(stream.Signature(requant_input(config), always_ready=True)),
                # Channel records of the next block. Its rows may come from the cycle on in which
                # the ``first`` vector of the current block enters, and have come in the cycle
                # before its own ``first`` vector enters.
                "record": In(stream.Signature(record_row(config), always_ready=True)),
                # Output rows; ``request.ready`` must be high.
                "write": Out(WritePortSignature(config)),
                # The lanes' second user.
                "vector": In(LanesSignature(config)),
                # Signal mask of a command, in the cycle in which its last row is written; in order.
                "done": Out(stream.Signature(unsigned(len(Engine)), always_ready=True)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        n, lanes = self.config.array_size, self.config.lanes
        groups = n // lanes
        slots = max(groups, RAW_ROWS)

        # A vector takes several slots, the first in the cycle in which it enters; what later slots
        # need of it is held, and its sums move down.
        held = Signal(requant_input(self.config), reset_less=True)
        vector = Signal(requant_input(self.config))
        later = Signal(range(slots))  # slot of this cycle, unless a vector enters
        slot = Signal(range(slots))
        active, last, computes, copies = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            vector.eq(Mux(self.i.valid, self.i.payload, held)),
            slot.eq(Mux(self.i.valid, 0, later)),
            active.eq(self.i.valid | (later != 0)),
            last.eq(slot == Mux(vector.write, Mux(vector.raw, slots, groups) - 1, 0)),
            computes.eq(active & vector.write & ~vector.raw),
            copies.eq(active & vector.write & vector.raw),
        ]
        m.d.sync += later.eq(Mux(active & ~last, slot + 1, 0))
        sums = vector.sums.as_value()
        with m.If(active & ~last):
            m.d.sync += held.eq(vector)
            with m.If(vector.raw):
                m.d.sync += held.sums.eq(sums[32 * n // RAW_ROWS :])
            with m.Else():
                m.d.sync += held.sums.eq(sums[32 * lanes :])

        # Control that travels with the data. The rows of a raw vector leave in its last slots.
        control = Signal(
            data.StructLayout(
                {
                    **{"write": 1, "raw": 1, "row": ROW_BITS, "done": 1, "signal": len(Engine)},
                    **({"int16": 1, "again": 1} if self.config.int16 else {}),
                }
            )
        )
        leaves, raw_row = Signal(), Signal(range(RAW_ROWS))
        m.d.comb += [
            leaves.eq(slot >= slots - RAW_ROWS),
            raw_row.eq(slot - (slots - RAW_ROWS)),
            control.write.eq((computes & last) | (copies & leaves)),
            control.raw.eq(vector.raw),
            control.row.eq(vector.row + Mux(vector.raw, raw_row, 0)),
            control.done.eq(active & last & vector.done),
            control.signal.eq(vector.signal),
        ]
        if self.config.int16:
            m.d.comb += [control.int16.eq(vector.int16), control.again.eq(vector.again)]
        controls = delay(m, control, STAGES, "control")

        requantized, ready = self._requantize(m, vector, computes, slot, controls)
        raw = self._copy(
            m,
            sums[: 32 * n // RAW_ROWS],
            enter=copies & (slot < RAW_ROWS),
            leave=controls[-2].write & controls[-2].raw,
            depth=slots + REQUANTIZER,
        )

        # The last stage ends in the registers of the write port; groups of lanes meet there.
        output = self.write.request
        out_control = controls[-1]
        with m.If(ready):
            m.d.sync += output.payload.data.eq(
                Cat(output.payload.data, requantized)[len(requantized) :]
            )
        with m.If(out_control.write & out_control.raw):
            m.d.sync += output.payload.data.eq(raw)
        m.d.sync += [
            output.valid.eq(out_control.write),
            output.payload.row.eq(out_control.row),
            self.done.valid.eq(out_control.done),
            self.done.payload.eq(out_control.signal),
        ]
        return m

    def _requantize(
        self, m: Module, vector: data.View, enter: Signal, slot: Signal, controls: list[data.View]
    ) -> tuple[Value, Signal]:
        """Build lanes and records: results of the last stage, and whether there are any."""
        lanes, others = self.config.lanes, len(self.vector.o)
        groups = self.config.array_size // lanes
        valids = delay(m, enter, STAGES, "valid")
        selects = delay(m, slot, STAGES, "group") if groups > 1 else [slot] * (STAGES + 1)
        fields = self._record_fields(m)
        # With a lane for each channel nothing is ever requantized from what is held.
        source = self.i.payload.sums if groups == 1 else vector.sums
        sums = Signal(data.ArrayLayout(signed(32), lanes), reset_less=True)
        with m.If(enter & ~self.i.payload.again if self.config.int16 else enter):
            m.d.sync += sums.as_value().eq(source.as_value())
        begins = Signal()  # the first slot is in stage 1
        m.d.sync += begins.eq(slot == 0)
        m.d.comb += self.vector.next_ready.eq(~enter)
        results = []
        for index in range(max(lanes, others)):
            lane = SharedLane(self.config)
            m.submodules[f"lane_{index}"] = lane
            drained, other = lane.users[0], lane.users[1]
            if index < lanes:
                m.d.comb += [lane.first.eq(enter), drained.sum.eq(sums[index])]
                for stage, records in fields.items():
                    channels = [records[group * lanes + index] for group in range(groups)]
                    for name in _names(records):
                        field = channels[0][name]
                        if groups > 1:
                            # Choosing takes long: a cycle before, into a register. Records of a
                            # block are not there before its first slot is in stage 1.
                            chosen = Signal.like(field, name=f"{name}_{index}", reset_less=True)
                            ahead = self._ahead(stage)
                            choices = [channel[name] for channel in channels[1 - ahead :]]
                            m.d.sync += chosen.eq(Array(choices)[selects[stage - ahead]])
                            field = chosen if ahead else Mux(begins, field, chosen)
                        m.d.comb += drained[name].eq(field)
                results.append(lane.o)
                if self.config.int16:
                    results[-1] = self._byte_of_pair(lane.o, controls[STAGES])
                    m.d.comb += [
                        lane.int16.eq(controls[STAGES - 1].int16),
                        lane.upper.eq(fields[STAGES][index].gain),
                    ]
            if index < others:
                m.d.comb += [
                    other.eq(self.vector.lane[index]),
                    lane.second.eq(self.vector.valid & ~valids[1]),
                    self.vector.o[index].eq(lane.o[:8].as_signed()),
                ]
        return Cat(results), valids[-1]

    @staticmethod
    def _byte_of_pair(result: Value, control: data.View) -> Value:
        """Return what is written of a result of 16 bits."""
        lower = Cat(result[:7], result[7] ^ control.again)
        return Mux(control.int16 & ~control.again, result[8:], lower)

    def _ahead(self, stage: int) -> int:
        """Return how many cycles before a stage the block's records must be there, for a choice.

        Without a choice, and in the first stage, they come in the stage itself.
        """
        return int(self.config.lanes < self.config.array_size and stage > 1)

    def _record_fields(self, m: Module) -> dict[int, data.View]:
        """Return the record fields of each channel, by the stage that uses them."""
        delays = max(_FIELDS) - 1
        firsts = delay(m, self.i.valid & self.i.payload.first, delays, "first")
        valids = delay(m, self.record.valid, delays, "record_valid")
        rows = delay(m, self.record.payload, delays, "record", enables=valids)
        fields = {}
        for stage, names in _FIELDS.items():
            if len(self.config.roundings) == 1:
                names = [name for name in names if name != "rounding"]
            if self.config.int16 and "low" in names:
                names = [*names, "gain"]
            cycles = stage - 1 - self._ahead(stage)
            block = RecordFields(self.config, names)
            m.submodules[f"fields_{stage}"] = block
            m.d.comb += [
                block.i.payload.eq(rows[cycles]),
                block.i.valid.eq(valids[cycles]),
                block.swap.eq(firsts[cycles]),
            ]
            fields[stage] = block.o
        return fields

    @staticmethod
    def _copy(m: Module, row: Value, *, enter: Value, leave: Value, depth: int) -> Value:
        """Keep raw rows while they would be in the lanes; ``leave`` comes a cycle before use."""
        m.submodules.raw_rows = memory = Memory(
            shape=len(row), depth=1 << ceil_log2(depth), init=[]
        )
        write_port, read_port = memory.write_port(), memory.read_port()
        m.d.comb += [
            write_port.data.eq(row),
            write_port.en.eq(enter),
            read_port.en.eq(leave),
        ]
        with m.If(enter):
            m.d.sync += write_port.addr.eq(write_port.addr + 1)
        with m.If(leave):
            m.d.sync += read_port.addr.eq(read_port.addr + 1)
        return read_port.data
