"""What is wrong with a command: its opcode, a field, or fields that contradict."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.utils import exact_log2

from tpulite.arch.bitfield import Layout
from tpulite.arch.config import Config
from tpulite.arch.isa import BYTE_STEPS, COMMANDS, CONV, PAIR_STRIDE, VECTOR, Axis, Drain, Opcode
from tpulite_rtl.lib.layout import built, operation_shape, struct_layout, whole_field

__all__ = ["VERDICT", "judge"]

_OPCODE = COMMANDS[Opcode.END].fields[0]

VERDICT = data.StructLayout({"opcode": _OPCODE.width, "known": 1, "legal": 1})
"""The opcode, whether there is such a one, and whether all fields are legal, too."""


def judge(m: Module, config: Config, word: Value) -> data.View:
    """Return the verdict on a command, in the same cycle.

    Parameters
    ----------
    m : Module
        Where it is worked out.
    config : Config
        What decides which fields are legal together.
    word : Value
        The command as it lies in DRAM.
    """
    opcode = word[: _OPCODE.width]
    known, illegal = Signal(), Signal()
    with m.Switch(opcode):
        for code, layout in COMMANDS.items():
            with m.Case(code):
                problems = [_is_illegal(built(layout, config), word)]
                if code == Opcode.CONV:
                    problems.append(_is_illegal_together(config, word))
                elif code == Opcode.VECTOR:
                    problems.append(_is_no_vector(config, word))
                m.d.comb += [known.eq(1), illegal.eq(Cat(problems).any())]
    # No field is read again: simulators take the whole for a loop.
    verdict = Signal(VERDICT)
    m.d.comb += [
        verdict.opcode.eq(opcode),
        verdict.known.eq(known),
        verdict.legal.eq(known & ~illegal),
    ]
    return verdict


def _is_illegal(layout: Layout, word: Value) -> Value:
    """Return whether a field has an illegal value or a bit beyond the layout is set."""
    fields = data.View(struct_layout(layout), word[: layout.width])
    problems = [word[layout.width :].any()]
    for field in layout.fields:
        value = whole_field(fields, field.name) if field.behind else fields[field.name]
        if field.minimum is not None:
            problems.append(value < field.minimum)
        if field.multiple > 1:
            problems.append(value[: exact_log2(field.multiple)].any())
        if field.enum is not None:
            problems.append(~Cat(value == member for member in field.enum).any())
    return Cat(problems).any()


def _is_no_vector(config: Config, word: Value) -> Value:
    """Return whether a VECTOR asks for what the machine lacks: ``illegal_combination``, too."""
    vector = data.View(struct_layout(VECTOR), word[: VECTOR.width])
    if not config.has_softmax:
        more = whole_field(vector, "operation")[operation_shape(config).width :]
        return Cat(more, vector.tail).any()
    return vector.tail >= config.array_size


def _is_illegal_together(config: Config, word: Value) -> Value:
    """Return whether the fields of a CONV contradict: ``tpulite.arch.isa.illegal_combination``."""
    layout = built(CONV, config)
    conv = data.View(struct_layout(layout), word[: layout.width])
    in_lanes = config.lanes < config.array_size
    problems = [
        conv.byte_step > min(config.array_size, BYTE_STEPS - 1),
        (conv.byte_step != 0) & (conv.depthwise | (conv.inner != Axis.X)),
        conv.depthwise & (conv.blocks != 1),
        conv.depthwise & (conv.drain == Drain.RAW),
        conv.depthwise & (conv.drain != Drain.KEEP) & in_lanes,
    ]
    if config.int16:
        mode = Cat(conv.depthwise, conv.byte_step != 0, conv.inner != Axis.X)
        odd = Cat(conv.columns[0], conv.acc_row[0], conv.drain == Drain.RAW)
        far = conv.stride_x > PAIR_STRIDE
        problems.append(Mux(conv.int16, Cat(mode, odd, far).any(), conv.digit != 0))
        if not config.has_transposed_tiles:
            problems.append(conv.transposed)
    if config.has_transposed_tiles:
        mode = Cat(conv.depthwise, conv.byte_step != 0, conv.int16)
        problems.append(conv.transposed & mode.any())
        if not config.int16:
            problems.append(conv.int16)
    if config.int4:
        mode = Cat(conv.depthwise, conv.byte_step != 0, conv.weight_zero_point != 0)
        turned = conv.transposed if config.has_transposed_tiles else 0
        problems.append(conv.int4 & (mode.any() | turned))
    return Cat(problems).any()
