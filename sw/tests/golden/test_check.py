from dataclasses import replace

import pytest

from tpulite.arch.memory import Window
from tpulite.golden.check import check
from tpulite.golden.races.detector import Kind, Space
from tpulite.program import Program, TensorSpec
from tpulite_testing.compiling.programs import CONFIG, L, S, X, copy, end, load, matmul, mlp, store

INPUT = TensorSpec("x", Window.INPUT, 0, m=128, channels=4)


def program(commands, **fields) -> Program:
    rest = {"constants": bytes(256), "window_bytes": (256, 512, 512, 512), "inputs": (INPUT,)}
    return Program(CONFIG, tuple(commands), **rest | fields)


def kinds(found) -> list[Kind]:
    return [violation.kind for violation in found]


def test_a_legal_program_has_no_violations():
    assert check(program(mlp())) == []


def test_a_dropped_wait_is_found_without_data():
    commands = mlp()
    commands[3] = commands[3].replace(wait=0)
    found = check(program(commands))
    assert {Kind.READ_AFTER_WRITE, Kind.LEFTOVER} <= set(kinds(found))
    assert found[0].commands in [(0, 3), (1, 3), (2, 3)]


def test_constants_inputs_and_resident_rows_are_there():
    commands = [load(0, 4, Window.CONSTANTS, offset=240, signal=S), store(0, 12, wait=L), end()]
    (rows,) = check(program(commands))
    assert (rows.kind, rows.space, rows.place) == (Kind.UNWRITTEN, Space.BUFFER, range(4, 12))
    assert check(program(commands, resident=((4, 8), (8, 20)))) == []
    (dram,) = check(program(commands, resident=((4, 12),), constants=bytes(250)))
    assert (dram.kind, dram.space) == (Kind.UNWRITTEN, Space.DRAM)
    assert dram.place == range(250, 256)
    (dram,) = check(program([load(0, 8, Window.SCRATCH), end()]))
    assert (dram.kind, dram.space) == (Kind.UNWRITTEN, Space.DRAM)
    shorter = replace(INPUT, m=100)
    assert kinds(check(program([load(0, 101), end()], inputs=(shorter,)))) == [Kind.UNWRITTEN]
    assert check(program([load(0, 100), end()], inputs=(shorter,))) == []


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (load(250, 8), "Command 0 LOAD stops the machine with BUFFER at 257"),
        (load(0, 8, Window.OUTPUT), "Command 0 LOAD stops the machine with WINDOW at 8192"),
        (store(0, 8, Window.INPUT), "Command 0 STORE stops the machine with WINDOW at 4096"),
        (load(0, 129), "Command 0 LOAD stops the machine with WINDOW at 4608"),
        (
            load(0, 8).replace(offset=8),
            "Command 0 LOAD stops the machine with FIELD: "
            "LOAD.offset must be a multiple of 16, not 8",
        ),
    ],
)
def test_a_command_that_would_fault_is_found(command, text):
    found = check(program([command, end()]))
    assert text in [str(violation) for violation in found]
    assert Kind.FAULT in kinds(found)


def test_the_end_is_checked():
    assert [str(x) for x in check(program([load(0, 4)]))] == ["There is no END"]
    found = check(program([end(), load(0, 4), end()]))
    assert [str(x) for x in found] == ["Behind END follow 2 commands"]


def test_tokens_are_checked():
    found = check(program([load(0, 12, signal=S | X), matmul(wait=L), end()]))
    assert [str(x) for x in found] == ["Tokens left at the end, from LOAD to STORE: 1"]
    found = check(program([copy(0, 0, 1, wait=S), end()]))
    assert str(found[0]) == (
        "Command 0 VECTOR awaits a token that no earlier command gives (from STORE)"
    )
