import random
from dataclasses import replace

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import TOKEN_MAX, Command, Engine, Opcode, dense
from tpulite.arch.memory import Window
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.golden.check import check
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.races.detector import Kind
from tpulite.program import Program
from tpulite_testing.drawn.commands import CONFIGS, WINDOWS, draw_command
from tpulite_testing.drawn.dense_networks import compile_network, random_network

LOAD, MXU = 1 << Engine.LOAD, 1 << Engine.MXU
END = Command.make(Opcode.END)


def load(row, rows=16):
    return Command.make(Opcode.LOAD, lines=1, rows=rows, row=row)


def matmul(act_row, weight_row, **fields):
    return Command.make(
        Opcode.CONV, **dense(m=16, k_tiles=1, act_row=act_row, weight_row=weight_row, **fields)
    )


def drop_token(program: Program, index: int, giver: Engine) -> Program:
    """Remove one wait and the signal that serves it."""
    commands = list(program.commands)
    command = commands[index]
    assert command.engine is not None
    nth = sum(c["wait"] >> giver & 1 for c in commands[:index] if c.engine == command.engine)
    givers = [
        i for i, c in enumerate(commands) if c.engine == giver and c["signal"] >> command.engine & 1
    ]
    signal = commands[givers[nth]]
    commands[index] = command.replace(wait=command["wait"] & ~(1 << giver))
    commands[givers[nth]] = signal.replace(signal=signal["signal"] & ~(1 << command.engine))
    return replace(program, commands=tuple(commands))


@pytest.mark.parametrize("sizes", [[64, 64, 48], [40, 200]])
@pytest.mark.parametrize("ub_rows", [256, 16384])
def test_every_wait_is_needed(sizes, ub_rows):
    network = random_network(1, sizes, 24)
    program = compile_network(network, Config(ub_rows=ub_rows))
    assert not check(program)
    waits = 0
    for index, command in enumerate(program.commands[:-1]):
        for engine in Engine:
            if command["wait"] >> engine & 1:
                waits += 1
                # Then the command may race, or one that relied on it.
                assert check(drop_token(program, index, engine)), (index, engine)
    assert waits > 5


def test_fresh_rows_do_not_wait_for_those_who_used_them():
    commands = (load(0), load(16), matmul(0, 16), load(0), matmul(0, 16), END)
    waits = [
        [each["wait"] for each in insert_tokens(commands, Config(), fresh=fresh)[:-1]]
        for fresh in ({}, {3: [range(16)]}, {3: [range(16, 32)]})
    ]
    assert waits == [[0, 0, LOAD, MXU, LOAD], [0, 0, LOAD, 0, LOAD], [0, 0, LOAD, MXU, LOAD]]


def test_implied_waits_are_left_out():
    commands = insert_tokens(
        (load(0), load(16), matmul(0, 16), matmul(0, 16), load(0), matmul(0, 16), END), Config()
    )
    assert [c["wait"] for c in commands[:-1]] == [0, 0, LOAD, 0, MXU, LOAD]
    assert [c["signal"] for c in commands[:-1]] == [0, MXU, 0, LOAD, MXU, 0]
    # The second command's weights were there when the first one started.
    assert [c["prefetch"] for c in commands if c.opcode == Opcode.CONV] == [0, 1, 1]


def test_a_wait_that_another_one_brings_along_is_left_out():
    store = Command.make(Opcode.STORE, window=2, lines=1, rows=16, row=32)
    product = matmul(0, 16, drain=2, out_row=32).replace(columns=4, width=4)
    # STORE reads what CONV wrote from what LOAD wrote; its wait for MXU is enough.
    commands = insert_tokens((load(0), load(16), product, store, load(32), END), Config())
    assert [c["wait"] for c in commands[:-1]] == [0, 0, LOAD, MXU, 1 << Engine.STORE]


def test_weights_that_may_still_arrive_are_not_prefetched():
    commands = insert_tokens(
        (load(0), load(16), matmul(0, 16), load(32), matmul(0, 32), END), Config()
    )
    assert [c["prefetch"] for c in commands if c.opcode == Opcode.CONV] == [0, 0]


def test_without_prefetch_loads_wait_for_all_that_is_computed_before():
    commands = (load(0), load(16), matmul(0, 16), load(64), matmul(0, 16), load(80), END)
    freely = insert_tokens(commands, Config())
    assert [c["wait"] for c in freely[:-1]] == [0, 0, LOAD, 0, 0, 0]
    assert [c["prefetch"] for c in freely if c.opcode == Opcode.CONV] == [0, 1]
    one_by_one = insert_tokens(commands, Config(), prefetch=False)
    assert [c["wait"] for c in one_by_one[:-1]] == [0, 0, LOAD, MXU, 0, MXU]
    assert [c["signal"] for c in one_by_one[:-1]] == [0, MXU, LOAD, 0, LOAD, 0]
    assert [c["prefetch"] for c in one_by_one if c.opcode == Opcode.CONV] == [0, 0]


def test_only_reads_after_writes_need_tokens_within_an_engine():
    drained = matmul(0, 16, drain=2, out_row=64)
    again = matmul(32, 16, drain=2, out_row=0)
    reader = matmul(64, 128)
    loads = (load(0), load(32), load(16))
    commands = insert_tokens((*loads, drained, drained, again, reader, END), Config())
    # Overwriting what was read or written before is harmless; reading it is not.
    assert [c["wait"] for c in commands[3:-1]] == [LOAD, 0, 0, MXU]
    assert [c["signal"] for c in commands[3:-1]] == [0, MXU, 0, 0]


def test_counters_never_overflow():
    n = 2 * TOKEN_MAX + 40
    config = Config(array_size=4)
    products = [matmul(0, 4, drain=2, out_row=16 + 64 * i) for i in range(n)]
    # Each load overwrites what one product wrote, long after it did.
    loads = [load(16 + 64 * i, rows=4) for i in range(n)]
    commands = insert_tokens((load(0), *products, *loads, END), config)
    level = peak = 0
    for command in commands[:-1]:
        if command.engine == Engine.LOAD:
            level -= command["wait"] >> Engine.MXU & 1
        if command.engine == Engine.MXU:
            level += command["signal"] >> Engine.LOAD & 1
        assert level >= 0
        peak = max(peak, level)
    assert level == 0
    assert peak == TOKEN_MAX  # none of its places is wasted


@pytest.mark.parametrize("seed", range(6))
def test_tokens_order_whatever_commands_touch(seed):
    rng, config = random.Random(seed), CONFIGS["4x4" if seed % 2 else "16x16"]
    commands = []
    while len(commands) < 150:
        command = draw_command(rng, rng.choice(list(Opcode)[:-1]), config)
        if command.opcode in (Opcode.LOAD, Opcode.STORE):
            command = command.replace(window=Window.SCRATCH)
        if footprint(command, config, WINDOWS).fault is None:
            commands.append(command)
    sizes = (0, 0, 0, WINDOWS[Window.SCRATCH].size)
    ordered = insert_tokens((*commands, END), config)
    program = Program(config, ordered, window_bytes=sizes, resident=((0, config.ub_rows),))
    # Random commands read what nothing has written, in DRAM and in the accumulators.
    assert {violation.kind for violation in check(program)} <= {Kind.UNWRITTEN, Kind.OVERLAP}
    assert sum(command["wait"] > 0 for command in ordered[:-1]) > 50
