import random
import re

import pytest

from tpulite.arch import isa
from tpulite.arch.config import COMMAND_BYTES, RECORD_BYTES, Config
from tpulite.arch.isa import (
    COMMANDS,
    ENGINE_OF,
    Axis,
    Command,
    Drain,
    Engine,
    Opcode,
    VectorOp,
    decode,
    disassemble,
)
from tpulite.command_columns import encode_commands, field_problems


def random_fields(rng: random.Random, opcode: Opcode) -> dict[str, int]:
    values = {}
    for field in COMMANDS[opcode].fields[1:]:
        value = rng.choice([field.range[0], field.range[-1], rng.choice(field.range)])
        value -= value % field.multiple
        if field.enum is not None:
            value = rng.choice(list(field.enum))
        values[field.name] = value if field.minimum is None else max(value, field.minimum)
    return values


@pytest.mark.parametrize("opcode", Opcode)
def test_decode_inverts_encode(opcode):
    rng = random.Random(int(opcode))
    for _ in range(300):
        command = Command.make(opcode, **random_fields(rng, opcode))
        assert len(command.encode()) == COMMAND_BYTES
        assert decode(command.encode()) == command


def test_columns_encode_what_each_command_does():
    """Of commands of all kinds in any order; nothing but the illegal fields is refused."""
    rng = random.Random(1)
    opcodes = [rng.choice(list(Opcode)) for _ in range(400)]
    commands = [Command.make(opcode, **random_fields(rng, opcode)) for opcode in opcodes]
    assert encode_commands(commands) == b"".join(command.encode() for command in commands)
    assert field_problems(commands) == {}


@pytest.mark.parametrize("opcode", [opcode for opcode in Opcode if opcode != Opcode.END])
def test_columns_find_every_illegal_field(opcode):
    rng, legal = random.Random(int(opcode)), Command.make(Opcode.END)
    for field in COMMANDS[opcode].fields[1:]:
        values = [field.range[0] - 1, field.range[-1] + 1, 1 << 80, -(1 << 80)]
        values += [field.minimum - 1] if field.minimum is not None else []
        values += [field.range[-1] - 1] if field.multiple > 1 else []
        values += [max(field.enum) + 1] if field.enum is not None else []
        for value in values:
            fields = random_fields(rng, opcode) | {field.name: value}
            why = COMMANDS[opcode].problem({"opcode": opcode, **fields})
            assert why is not None and field.name in why
            commands = [legal, Command(opcode, fields)]
            assert field_problems(commands) == {1: why}
            with pytest.raises(ValueError, match=re.escape(why)):
                encode_commands(commands)


@pytest.mark.parametrize("opcode", Opcode)
def test_layouts_fit_and_start_alike(opcode):
    layout = COMMANDS[opcode]
    assert layout.width <= 8 * COMMAND_BYTES
    header = [(field.name, field.width) for field in isa.HEADER]
    fields = [(field.name, field.width) for field in layout.fields]
    assert fields[: len(header)] == (header if opcode != Opcode.END else header[:1])


def test_records_have_their_size():
    assert isa.RECORD.width <= 8 * RECORD_BYTES
    assert isa.OPERANDS.width <= 8 * RECORD_BYTES


def test_a_matrix_product_is_a_convolution_of_one_tap():
    """Of its two extents and the pitch; what is named otherwise stays."""
    command = Command.make(Opcode.CONV, **isa.dense(m=5, k_tiles=3, act_pitch=7, out_row=9))
    assert decode(command.encode()) == command
    extents = [command[name] for name in ("rows", "columns", "height", "width", "blocks")]
    assert extents == [1, 5, 1, 5, 3]
    for name in ("stride", "dilation"):
        assert (command[f"{name}_y"], command[f"{name}_x"]) == (1, 1)
    assert (command["kernel_rows"], command["kernel_columns"]) == (1, 1)
    assert (command["act_block_pitch"], command["out_row"], command["out_step"]) == (7, 9, 1)
    raw = isa.dense(m=5, k_tiles=3, drain=Drain.RAW)
    assert raw["out_step"] == isa.RAW_ROWS
    assert (raw["act_row"], raw["act_block_pitch"]) == (0, 0)
    assert (command["act_row"], command["drain"]) == (0, Drain.KEEP)


def test_every_command_but_end_has_an_engine():
    assert set(ENGINE_OF) == set(Opcode) - {Opcode.END}
    assert set(ENGINE_OF.values()) == set(Engine)
    assert Command.make(Opcode.END).engine is None
    assert Command.make(Opcode.CONV).engine == Engine.MXU


@pytest.mark.parametrize("opcode", sorted(set(range(16)) - set(Opcode)))
def test_decode_refuses_an_unknown_opcode(opcode):
    with pytest.raises(ValueError, match=rf"^Opcode must be one of \[.*\], not {opcode}$"):
        decode(bytes([opcode]).ljust(COMMAND_BYTES, b"\0"))


@pytest.mark.parametrize("opcode", Opcode)
def test_decode_refuses_every_unused_bit(opcode):
    rng = random.Random(1)
    word = int.from_bytes(Command.make(opcode, **random_fields(rng, opcode)).encode(), "little")
    width = COMMANDS[opcode].width
    text = f"^{opcode.name} has bits set beyond bit {width - 1}$"
    for bit in range(width, 8 * COMMAND_BYTES):
        with pytest.raises(ValueError, match=text):
            decode((word | 1 << bit).to_bytes(COMMAND_BYTES, "little"))


def test_decode_refuses_an_illegal_field():
    command = Command.make(Opcode.LOAD, lines=1, rows=1)
    offset = isa.LOAD.offsets()["offset"]
    word = int.from_bytes(command.encode(), "little") | 1 << offset
    with pytest.raises(ValueError, match=r"^LOAD.offset must be a multiple of 16, not 1$"):
        decode(word.to_bytes(COMMAND_BYTES, "little"))


@pytest.mark.parametrize("softmax", [False, True])
def test_only_machines_with_softmax_have_its_operations_and_tails(softmax):
    config = Config(array_size=16, softmax=softmax)
    common = [op for op in VectorOp if op not in (VectorOp.NORM, VectorOp.SHARE)]
    assert isa.operations(config) == (tuple(VectorOp) if softmax else tuple(common))
    for operation in VectorOp:
        why = isa.illegal_combination(Command.make(Opcode.VECTOR, operation=operation), config)
        if softmax or operation in common:
            assert why is None
        else:
            most = max(common)
            assert why == (
                f"VECTOR.operation must be at most {most} without softmax, not {operation}"
            )
    for tail in range(20):
        why = isa.illegal_combination(Command.make(Opcode.VECTOR, tail=tail), config)
        assert (why is None) is (tail == 0 or (softmax and tail < 16))


def test_decode_refuses_another_length():
    with pytest.raises(ValueError, match=r"^A command has 32 bytes, not 31$"):
        decode(bytes(31))


def test_make_refuses_unknown_fields():
    with pytest.raises(ValueError, match=r"^VECTOR has no fields \['col', 'src'\]$"):
        Command.make(Opcode.VECTOR, src=1, col=2)


def test_replace_changes_only_what_it_names():
    command = Command.make(Opcode.CONV, rows=3, blocks=2)
    changed = command.replace(rows=4)
    assert (changed["rows"], changed["blocks"], command["rows"]) == (4, 2, 3)


def test_disassembly_names_engines_and_choices():
    command = Command.make(
        Opcode.CONV, wait=1 << Engine.LOAD | 1 << Engine.VPU, signal=1 << Engine.STORE, columns=5,
        inner=Axis.Y, drain=Drain.REQUANTIZE, weight_zero_point=-4,
    )  # fmt: skip
    assert disassemble(command) == (
        "CONV    wait=LOAD|VPU signal=STORE inner=y columns=5 weight_zero_point=-4 drain=requantize"
    )
    assert disassemble(Command.make(Opcode.END)) == "END"
