"""The lanes of the vector path, time-shared over the slices of a vector."""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import WORD_BYTES, Config
from tpulite.arch.isa import OPERANDS, RECORD, Opcode, VectorOp
from tpulite_rtl.lib.layout import field_shape, operation_shape, struct_layout
from tpulite_rtl.lib.pipeline import delay
from tpulite_rtl.vpu import elementwise_lane, requantizer_lane
from tpulite_rtl.vpu.elementwise_lane import ElementwiseLane
from tpulite_rtl.vpu.lookup_table import LookupTable
from tpulite_rtl.vpu.operand_scales import OperandScales
from tpulite_rtl.vpu.shared_lane import FIELD_STAGES, LanesSignature
from tpulite_rtl.vpu.vector_parameters import table_row
from tpulite_rtl.vpu.window_reducer import reduced_pair
from tpulite_rtl.vpu.word_lanes import WordLanes

__all__ = ["VectorLanes"]

_LOOKUP_STAGE = 1  # in which a looked up byte is there
_SUM_STAGE = elementwise_lane.STAGES  # in which the requantizer takes its sum
_RESULT_STAGE = _SUM_STAGE + requantizer_lane.STAGES - 1


class VectorLanes(wiring.Component):
    """Scale, add, multiply, requantize or look up whole vectors, ``vector_lanes`` bytes per cycle.

    A vector takes N / lanes cycles, twice as many of ADD and SUB: a slice of A, then that of B. It
    is accepted in the last of these. Its result comes two (LUT) or twelve cycles later, and a cycle
    more for each in which its sums wait for the lanes of the requantizer: what is behind them
    stands still. The place of a result must be free.

    Parameters
    ----------
    config : Config
        Geometry, lanes and roundings.
    """

    def __init__(self, config: Config) -> None:
        assert config.vector_lanes is not None
        self.config = config
        self._lanes = config.vector_lanes
        self._groups = config.array_size // config.vector_lanes
        self._slices = self._groups * (WORD_BYTES if config.has_softmax else 1)
        super().__init__(
            {
                # What to compute. Stable from the second cycle before the first vector on.
                "operation": In(operation_shape(config)),
                "tail": In(field_shape(Opcode.VECTOR, "tail")),
                "operands": In(struct_layout(OPERANDS)),
                # Record of each channel, just as stable.
                "records": In(data.ArrayLayout(struct_layout(RECORD), config.array_size)),
                # Rows of a table; not while a LUT is under way.
                "i_table": In(stream.Signature(table_row(config), always_ready=True)),
                # Vectors.
                "i": In(stream.Signature(reduced_pair(config))),
                # Lanes that others use first.
                "requantizer": Out(LanesSignature(config)),
                # Results, in order.
                "o": Out(stream.Signature(unsigned(8 * config.row_bytes), always_ready=True)),
                # A vector is inside.
                "busy": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        groups, slices = self._groups, self._slices

        # The slice of this cycle, and those in each later stage. Everything up to the sums stands
        # still while these cannot enter the requantizer.
        group, last = Signal(range(max(slices, 2))), Signal()
        moves = Signal(init=1)
        enters, first = Signal(), Signal(init=1)
        second, whole = Signal(), Signal()  # the turn of B; the last turn of a slice
        is_lookup = self.operation == VectorOp.LUT
        is_norm, is_share, held = Signal(), Signal(), Signal()
        if self.config.has_softmax:
            m.d.sync += [  # known before the first vector
                is_norm.eq(self.operation == VectorOp.NORM),
                is_share.eq(self.operation == VectorOp.SHARE),
            ]
        final = Mux(is_norm | is_share, slices - 1, groups - 1)
        next_group = Signal.like(group)
        is_final = Signal()
        m.d.sync += [group.eq(next_group), is_final.eq(next_group == final)]
        m.d.comb += [
            next_group.eq(group),
            last.eq(is_final & whole),
            enters.eq(self.i.valid & moves & ~held),
            self.i.ready.eq(last & moves & ~held),
        ]
        m.submodules.scales = scales = OperandScales(self.config)
        m.d.comb += [
            scales.operation.eq(self.operation),
            scales.operands.eq(self.operands),
            scales.second.eq(second),
            scales.moves.eq(moves),
            whole.eq(second | ~scales.o.scales),
        ]
        with m.If(enters):
            m.d.sync += second.eq(~whole)
        if slices > 1:
            with m.If(enters & whole):
                m.d.comb += next_group.eq(Mux(last, 0, group + 1))
                m.d.sync += first.eq(last)
        valids = self._delay(m, self.i.valid & whole & ~is_lookup & ~is_norm, moves, "valid")
        lookups = delay(m, self.i.valid & is_lookup, _LOOKUP_STAGE, "lookup")
        lasts = self._delay(m, last, moves, "last")
        own = group[: exact_log2(groups)]
        selects = self._delay(m, own, moves, "group") if groups > 1 else []
        next_valid = Mux(moves, valids[_SUM_STAGE - 1], valids[_SUM_STAGE])
        m.d.comb += self.requantizer.valid.eq(valids[_SUM_STAGE])
        m.d.sync += moves.eq(~next_valid | self.requantizer.next_ready)
        operands = self._operands(m, own, first, enters & whole)
        self._arithmetic(m, scales, selects, operands)
        table = self._look_up(m, moves, operands)
        looked_up = table.o.as_value()
        words = self._words(m, table, is_norm, is_share) if self.config.has_softmax else None

        # Slices meet in the register of the result.
        results = Mux(is_lookup, looked_up, self.requantizer.o.as_value())
        arrives = lookups[_LOOKUP_STAGE] | valids[_RESULT_STAGE]
        completes = Mux(is_lookup, lasts[_LOOKUP_STAGE], lasts[_RESULT_STAGE])
        m.d.sync += self.o.valid.eq(arrives & completes)
        with m.If(arrives):
            m.d.sync += self.o.payload.eq(Cat(self.o.payload, results)[len(results) :])
        m.d.comb += self.busy.eq(Cat(valids, lookups, self.o.valid).any())
        if words is None:
            return m
        m.d.comb += [
            words.moves.eq(moves),
            words.valid.eq(self.i.valid & (is_norm | is_share)),
            words.slice.eq(group),
            held.eq(words.held),
        ]
        shares = results[: 8 * self.config.word_lanes]
        with m.If(words.o.valid):
            m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(words.o.payload)]
        with m.Elif(arrives & is_share):
            m.d.sync += self.o.payload.eq(Cat(self.o.payload, shares)[len(shares) :])
        m.d.comb += self.busy.eq(Cat(valids, lookups, self.o.valid, words.busy).any())
        return m

    @staticmethod
    def _delay(m: Module, value: Value, moves: Value, name: str) -> list:
        """Return what travels beside the data, by stage; in the requantizer all always moves."""
        before = delay(m, value, _SUM_STAGE, name, enables=[moves] * _SUM_STAGE)
        enters = before[-1] & moves.replicate(len(before[-1]))
        after = delay(m, enters, _RESULT_STAGE - _SUM_STAGE, f"{name}_requantized")
        return before + after[1:]

    def _operands(self, m: Module, group: Value, first: Value, leaves: Value) -> list[dict]:
        """Return a, b and gain of the slice of this cycle, for each lane.

        Choosing takes long: while a slice leaves, the next one is chosen, into registers.
        """
        vector, lanes = self.i.payload, []
        for index in range(self._lanes):
            lanes.append({})
            channels = range(index, self.config.array_size, self._lanes)
            for name in ("a", "b", "gain"):
                slices = [
                    self.records[c].gain if name == "gain" else vector[name][c] for c in channels
                ]
                value = slices[0]
                if self._groups > 1:
                    chosen = Signal.like(value, name=f"{name}_{index}", reset_less=True)
                    with m.If(leaves):
                        m.d.sync += chosen.eq(Array(slices[1:])[group])
                    value = Mux(first, value, chosen)
                lanes[-1][name] = value
        return lanes

    def _arithmetic(
        self, m: Module, scales: OperandScales, selects: Sequence[Value], operands: Sequence[dict]
    ) -> None:
        """Build the elementwise lanes, and give their sums and records to the requantizer's."""
        for index in range(self._lanes):
            channels = range(index, self.config.array_size, self._lanes)
            lane = self.requantizer.lane[index]
            prepare = ElementwiseLane()
            m.submodules[f"elementwise_{index}"] = prepare
            m.d.comb += [
                prepare.moves.eq(scales.moves),
                prepare.scales.eq(scales.o),
                prepare.second.eq(scales.second),
                lane.sum.eq(prepare.o),
                *(getattr(prepare, name).eq(value) for name, value in operands[index].items()),
            ]
            for name, stage in FIELD_STAGES.items():
                field = self.records[index][name]
                if self._groups > 1:  # chosen a stage before, too
                    before = _SUM_STAGE + stage - 1
                    fields = Array(self.records[c][name] for c in channels)
                    field = Signal.like(lane[name], name=f"{name}_{index}", reset_less=True)
                    with m.If(scales.moves if before < _SUM_STAGE else 1):
                        m.d.sync += field.eq(fields[selects[before]])
                m.d.comb += lane[name].eq(field)

    def _words(self, m: Module, table: LookupTable, is_norm: Signal, is_share: Signal) -> WordLanes:
        """Build what NORM and SHARE have of their own; sums of SHARE go to the requantizer."""
        m.submodules.words = words = WordLanes(self.config)
        m.d.comb += [
            words.is_norm.eq(is_norm),
            words.tail.eq(self.tail),
            words.ends.eq(self.i.payload.ends),
            words.b.eq(self.i.payload.b),
            *(words.a[c].eq(self.i.payload.a[c][:8]) for c in range(self.config.array_size)),
        ]
        for index in range(self.config.word_lanes):
            first = WORD_BYTES * index
            lane = self.requantizer.lane[index]
            m.d.comb += words.words[index].eq(table.o.as_value().word_select(index, 32))
            with m.If(is_norm | is_share):
                for byte in range(first, first + WORD_BYTES):
                    m.d.comb += table.address[byte].eq(words.address[index])
            with m.If(is_share):
                m.d.comb += [
                    lane.sum.eq(words.sums[index]),
                    lane.multiplier.eq(words.norm.multiplier),
                    lane.shift.eq(words.norm.shift),
                ]
        return words

    def _look_up(self, m: Module, moves: Value, operands: Sequence[dict]) -> LookupTable:
        """Build the table; its results come a stage later."""
        m.submodules.table = table = LookupTable(self.config, lanes=self._lanes)
        wiring.connect(m, wiring.flipped(self.i_table), table.i)
        m.d.comb += table.moves.eq(moves)
        for index in range(self._lanes):
            # The table begins with the result for -128.
            m.d.comb += table.address[index].eq(operands[index]["a"][:8] ^ 0x80)
        return table
