"""The generator of random programs, held to the golden machine and to an order found by search."""

from collections import deque
from itertools import combinations

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Engine, Opcode
from tpulite.golden.effects.footprint import decode_commands, footprint
from tpulite.golden.machine import Machine
from tpulite.golden.machine.dram import Dram
from tpulite_tb.random_program import RandomProgram

CONFIGS = {
    "4x4": Config(array_size=4, ub_rows=256, acc_rows=32),
    "8x8": Config(array_size=8, ub_rows=512, acc_rows=64, roundings=("single", "float32")),
    "16x16": Config(array_size=16, ub_rows=1024, acc_rows=64, roundings=("ruy",)),
    "32x32": Config(array_size=32, ub_rows=512, acc_rows=128),
}


@pytest.fixture(params=CONFIGS, ids=list(CONFIGS))
def config(request) -> Config:
    return CONFIGS[request.param]


def run(program: RandomProgram, image, job, *, errors: bool, **options):
    dram = Dram(
        program.dram_bytes,
        read_errors=program.read_errors if errors else (),
        write_errors=program.write_errors if errors else (),
    )
    dram.write(0, image)
    data = dram.read(job.program_address, 32 * job.program_length).tobytes()
    return Machine(program.config).run(
        decode_commands(data),
        job.windows,
        dram,
        program_address=job.program_address,
        **options,
    )


def test_programs_are_legal_and_fault_as_expected(config):
    faults = set()
    for seed in range(150):
        program = RandomProgram(seed, config, fault=0.5)
        done = run(program, program.dram, program.job, errors=True)
        expected = program.fault
        assert (expected is None) == (done.fault is None), seed
        if expected is not None and done.fault is not None:
            assert (done.fault.code, done.index, done.fault.address) == (
                expected.code,
                expected.index,
                expected.address,
            ), seed
            faults.add(expected.code)
            assert run(program, program.legal_dram, program.legal_job, errors=False).fault is None
    assert len(faults) >= 8


def test_same_seed_same_program(config):
    first, second = RandomProgram(7, config), RandomProgram(7, config)
    assert first.commands == second.commands
    assert np.array_equal(first.dram, second.dram)
    assert first.fault == second.fault


def test_every_dropped_token_is_reported_unless_it_is_redundant(config):
    """Drop one token, its wait and its signal, at a time."""
    reported = redundant = 0
    for seed in range(12):
        program = RandomProgram(seed, config, fault=0)
        for taker, giver, engine in tokens(program.legal_commands):
            commands = list(program.legal_commands)
            commands[taker] = without(commands[taker], "wait", engine)
            target = commands[taker].engine
            assert target is not None
            commands[giver] = without(commands[giver], "signal", target)
            dram = Dram(program.dram_bytes)
            dram.write(0, program.legal_dram)
            done = Machine(config).run(commands, program.windows, dram, strict=False)
            needed = not is_ordered(commands, config, program.windows)
            assert bool(done.violations) == needed, (seed, taker, giver, done.violations)
            reported += needed
            redundant += not needed
    assert reported > 50
    assert redundant > 10


def tokens(commands) -> list[tuple[int, int, Engine]]:
    """Return the taker, the giver and the giver's engine of each token."""
    given = {(a, b): deque() for a in Engine for b in Engine}
    found = []
    for i, command in enumerate(commands):
        if command.engine is None:
            continue
        for engine in Engine:
            if command["wait"] >> engine & 1:
                found.append((i, given[engine, command.engine].popleft(), engine))
        for engine in Engine:
            if command["signal"] >> engine & 1:
                given[command.engine, engine].append(i)
    return found


def without(command: Command, name: str, engine: Engine) -> Command:
    assert command[name] >> engine & 1
    return command.replace(**{name: command[name] & ~(1 << engine)})


def reach(commands):
    """Return by command which starts and ends follow its end, and which one its engine had last."""
    edges: dict[tuple[str, int], list[tuple[str, int]]] = {}
    latest: dict[Engine, int] = {}
    previous: dict[int, int | None] = {}
    for i, command in enumerate(commands):
        if command.engine is None:
            continue
        edges.setdefault(("start", i), []).append(("end", i))
        edges.setdefault(("end", i), [])
        previous[i] = before = latest.get(command.engine)
        if before is not None:
            edges["start", before].append(("start", i))
            edges["end", before].append(("end", i))
        latest[command.engine] = i
    for taker, giver, _ in tokens(commands):
        edges["end", giver].append(("start", taker))

    reached: dict[int, set[tuple[str, int]]] = {}
    for i in previous:
        seen, todo = set(), [("end", i)]
        while todo:
            event = todo.pop()
            if event not in seen:
                seen.add(event)
                todo += edges[event]
        reached[i] = seen
    return reached, previous


def is_ordered(commands, config: Config, windows) -> bool:
    """Say whether all accesses are ordered, by searching a graph of starts and completions."""
    reached, previous = reach(commands)
    touched = [footprint(command, config, windows) for command in commands]
    rows = [
        {"early": set(x.early_reads), "reads": set(x.reads), "writes": set(x.writes)}
        for x in touched
    ]
    beats = [{beat for span in x.spans for beat in span.beats} for x in touched]
    for a, b in combinations(previous, 2):
        same = commands[a].engine == commands[b].engine
        starts = ("start", b) in reached[a]
        early = starts
        if commands[b].opcode == Opcode.CONV and commands[b]["prefetch"]:
            early = previous[b] is not None and ("start", previous[b]) in reached[a]
        if rows[a]["writes"] & rows[b]["early"] and not early:
            return False
        if starts:
            continue
        if rows[a]["writes"] & rows[b]["reads"]:
            return False
        if same:
            continue
        if (rows[a]["early"] | rows[a]["reads"] | rows[a]["writes"]) & rows[b]["writes"]:
            return False
        transfers = {commands[a].opcode, commands[b].opcode} == {Opcode.LOAD, Opcode.STORE}
        if transfers and beats[a] & beats[b]:
            return False
    return True


def test_seeds_differ():
    lengths = {len(RandomProgram(seed, CONFIGS["4x4"]).commands) for seed in range(40)}
    assert len(lengths) > 10
