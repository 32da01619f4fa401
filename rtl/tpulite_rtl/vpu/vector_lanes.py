"""The lanes of the vector path, time-shared over the slices of a vector."""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import OPERANDS, RECORD, Opcode, VectorOp
from tpulite.arch.numerics import Rounding
from tpulite_rtl.lib.layout import field_shape, struct_layout
from tpulite_rtl.vpu import elementwise_lane, requantizer_lane
from tpulite_rtl.vpu.elementwise_lane import GAIN_STAGE, ElementwiseLane
from tpulite_rtl.vpu.lookup_table import LookupTable
from tpulite_rtl.vpu.operand_scales import OperandScales
from tpulite_rtl.vpu.pipeline import delay
from tpulite_rtl.vpu.requantizer_lane import RequantizerLane
from tpulite_rtl.vpu.vector_parameters import table_row
from tpulite_rtl.vpu.window_reducer import reduced_pair

__all__ = ["VectorLanes"]

_LOOKUP_STAGE = 1  # in which a looked up byte is there
_SUM_STAGE = elementwise_lane.STAGES  # in which the requantizer takes its sum
_RESULT_STAGE = _SUM_STAGE + requantizer_lane.STAGES - 1
# How lanes multiply A and B, by how the array multiplies.
_STYLES = {"dsp": ("dsp", "dsp"), "mixed": ("dsp", "logic"), "logic": ("logic", "logic")}
# Stage of the requantizer's lane in which it uses a field of a record, if not the last one.
_FIELD_STAGES = {"bias": 0, "shift": 1, "rounding": 1, "multiplier": 2, "zero_point": 5}


class VectorLanes(wiring.Component):
    """Scale, add, multiply, requantize or look up whole vectors, ``vector_lanes`` bytes a cycle.

    A vector takes N / lanes cycles and is accepted in the last of these. Its result comes
    two (LUT) or twelve cycles later; nothing here waits, so its place must be free.

    Parameters
    ----------
    config : Config
        Geometry, lanes and roundings.

    Members
    -------
    operation : In(3), operands : In(struct_layout(OPERANDS))
        What to compute. Stable from the cycle before the first vector on.
    records : In(data.ArrayLayout(struct_layout(RECORD), N))
        Record of each channel, just as stable.
    i_table : In(stream.Signature(table_row(config), always_ready=True))
        Rows of a table; not while a LUT is under way.
    i : In(stream.Signature(reduced_pair(config)))
        Vectors.
    o : Out(stream.Signature(unsigned(8 * N), always_ready=True))
        Results, in order.
    busy : Out(1)
        A vector is inside.
    """

    operation: Signal
    operands: data.View
    records: data.View
    i_table: stream.Interface
    i: stream.Interface
    o: stream.Interface
    busy: Signal

    def __init__(self, config: Config) -> None:
        assert config.vector_lanes is not None
        self.config = config
        self._lanes = config.vector_lanes
        self._groups = config.array_size // config.vector_lanes
        super().__init__(
            {
                "operation": In(field_shape(Opcode.VECTOR, "operation")),
                "operands": In(struct_layout(OPERANDS)),
                "records": In(data.ArrayLayout(struct_layout(RECORD), config.array_size)),
                "i_table": In(stream.Signature(table_row(config), always_ready=True)),
                "i": In(stream.Signature(reduced_pair(config))),
                "o": Out(stream.Signature(unsigned(8 * config.row_bytes), always_ready=True)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        groups = self._groups

        # The slice of this cycle, and those in each later stage.
        group, last = Signal(range(max(groups, 2))), Signal()
        m.d.comb += [last.eq(group == groups - 1), self.i.ready.eq(last)]
        if groups > 1:
            with m.If(self.i.valid):
                m.d.sync += group.eq(group + 1)
        is_lookup = self.operation == VectorOp.LUT
        valids = delay(m, self.i.valid & ~is_lookup, _RESULT_STAGE, "valid")
        lookups = delay(m, self.i.valid & is_lookup, _LOOKUP_STAGE, "lookup")
        lasts = delay(m, last, _RESULT_STAGE, "last")
        selects = delay(m, group, _RESULT_STAGE, "group") if groups > 1 else []
        arithmetic = self._arithmetic(m, valids, selects)
        looked_up = self._look_up(m, group)

        # Slices meet in the register of the result.
        results = Mux(is_lookup, looked_up, arithmetic)
        arrives = lookups[_LOOKUP_STAGE] | valids[_RESULT_STAGE]
        completes = Mux(is_lookup, lasts[_LOOKUP_STAGE], lasts[_RESULT_STAGE])
        m.d.sync += self.o.valid.eq(arrives & completes)
        with m.If(arrives):
            m.d.sync += self.o.payload.eq(Cat(self.o.payload, results)[len(results) :])
        m.d.comb += self.busy.eq(Cat(valids, lookups, self.o.valid).any())
        return m

    def _arithmetic(self, m: Module, valids: Sequence[Value], selects: Sequence[Value]) -> Value:
        """Build the lanes; return their results of the last stage."""
        enables = Cat(valids[_SUM_STAGE:_RESULT_STAGE])
        roundings = [Rounding[name.upper()] for name in self.config.roundings]
        names = [f.name for f in RECORD.fields if f.name != "gain"]
        if len(roundings) == 1:
            names.remove("rounding")
        m.submodules.scales = scales = OperandScales()
        m.d.comb += [
            scales.operation.eq(self.operation),
            scales.operands.eq(self.operands),
        ]
        results = []
        for index in range(self._lanes):
            channels = range(index, self.config.array_size, self._lanes)
            vector = self.i.payload
            prepare = ElementwiseLane(_STYLES[self.config.multipliers])
            requantize = RequantizerLane(roundings)
            m.submodules[f"elementwise_{index}"] = prepare
            m.submodules[f"requantizer_{index}"] = requantize
            m.d.comb += [
                prepare.scales.eq(scales.o),
                prepare.a.eq(_choose([vector.a[c] for c in channels], selects, 0)),
                prepare.b.eq(_choose([vector.b[c] for c in channels], selects, 0)),
                prepare.gain.eq(
                    _choose([self.records[c].gain for c in channels], selects, GAIN_STAGE)
                ),
                requantize.valid.eq(enables),
                requantize.sum.eq(prepare.o),
            ]
            for name in names:
                stage = _SUM_STAGE + _FIELD_STAGES.get(name, requantizer_lane.STAGES - 1)
                fields = [self.records[c][name] for c in channels]
                m.d.comb += getattr(requantize, name).eq(_choose(fields, selects, stage))
            results.append(requantize.o)
        return Cat(results)

    def _look_up(self, m: Module, group: Signal) -> Value:
        """Build the table; return its results, a stage later."""
        m.submodules.table = table = LookupTable(self.config, lanes=self._lanes)
        wiring.connect(m, wiring.flipped(self.i_table), table.i)
        vector = self.i.payload.a
        for index in range(self._lanes):
            channels = range(index, self.config.array_size, self._lanes)
            byte = _choose([vector[c][:8] for c in channels], [group], 0)
            # The table begins with the result for -128.
            m.d.comb += table.address[index].eq(byte ^ 0x80)
        return table.o.as_value()


def _choose(values: Sequence[Value], selects: Sequence[Value], stage: int) -> Value:
    """Return the value of the slice in a stage."""
    return Array(values)[selects[stage]] if len(values) > 1 else values[0]
