"""The race detector, provoked: every kind of violation, and every token dropped one at a time."""

from functools import partial

import numpy as np
import pytest

from tpulite.arch.isa import Command, Drain, Engine, Opcode
from tpulite.arch.memory import Window
from tpulite.golden.effects.access import Footprint
from tpulite.golden.effects.extents import ExtentFinder
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.machine import Machine, RaceError
from tpulite.golden.machine.dram import Dram
from tpulite.golden.races.detector import Kind, RaceDetector, Space
from tpulite_testing.compiling.programs import (
    CONFIG,
    WINDOWS,
    L,
    S,
    V,
    X,
    copy,
    end,
    filled_dram,
    load,
    matmul,
    mlp,
    store,
)

RAW, WAR, WAW = Kind.READ_AFTER_WRITE, Kind.WRITE_AFTER_READ, Kind.WRITE_AFTER_WRITE
KEEP = {"act_row": 0, "weight_row": 8}
DRAINED = KEEP | {"drain": Drain.RAW}


def violations(commands, dram=None):
    dram = filled_dram() if dram is None else dram
    return Machine(CONFIG).run([*commands, end()], WINDOWS, dram, strict=False).violations


# Name: commands, kind, the two commands (or one), space, first and last place.
CASES = {
    "RAW": ([load(0, 12), store(4, 4)], RAW, (0, 1), Space.BUFFER, range(4, 8)),
    "WAR": (
        [load(0, 12, signal=S), store(0, 8, wait=L), load(6, 4)],
        WAR, (1, 2), Space.BUFFER, range(6, 8),
    ),
    "WAW": ([load(0, 12, signal=V), copy(0, 50, 8, wait=L), load(52, 2)],
            WAW, (1, 2), Space.BUFFER, range(52, 54)),
    "RAW within MXU": (
        [load(0, 12, signal=X), matmul(wait=L, out_row=20, **DRAINED),
         matmul(**DRAINED | {"act_row": 30, "out_row": 60})],
        RAW, (1, 2), Space.BUFFER, range(30, 34),
    ),
    "RAW within VPU": (
        [load(0, 12, signal=V), copy(0, 20, 4, wait=L), copy(22, 40, 2)],
        RAW, (1, 2), Space.BUFFER, range(22, 24),
    ),
    "prefetch before the weights": (
        [load(0, 12, signal=X), matmul(wait=L, **KEEP), load(40, 4, signal=X),
         matmul(wait=L, prefetch=1, **KEEP | {"weight_row": 40})],
        RAW, (2, 3), Space.BUFFER, range(40, 44),
    ),
    "prefetch by the first command": (
        [load(0, 12, signal=X), matmul(wait=L, prefetch=1, **KEEP)],
        RAW, (0, 1), Space.BUFFER, range(8, 12),
    ),
    "DRAM RAW": (
        [load(0, 8, signal=S), store(0, 8, Window.SCRATCH, wait=L), load(8, 4, Window.SCRATCH)],
        RAW, (1, 2), Space.DRAM, range(0x4000, 0x4010),
    ),
    "DRAM WAR": (
        [load(0, 4, signal=S), load(20, 4, Window.SCRATCH, offset=32),
         store(0, 4, Window.SCRATCH, offset=32, wait=L)],
        WAR, (1, 2), Space.DRAM, range(0x4020, 0x4030),
    ),
    "unwritten rows": (
        [load(0, 8, signal=S), store(4, 8, wait=L)],
        Kind.UNWRITTEN, (1,), Space.BUFFER, range(8, 12),
    ),
    "unwritten accumulators": (
        [load(0, 12, signal=X), matmul(wait=L, acc_row=2, **KEEP),
         matmul(accumulate=1, acc_row=4, **KEEP)],
        Kind.UNWRITTEN, (2,), Space.ACCUMULATOR, range(6, 8),
    ),
    "accumulators after a drain": (
        [load(0, 12, signal=X), matmul(wait=L, acc_row=0, out_row=80, **DRAINED),
         matmul(accumulate=1, **KEEP)],
        Kind.UNWRITTEN, (2,), Space.ACCUMULATOR, range(0, 4),
    ),
    "output over activations": (
        [load(0, 20, signal=X), matmul(wait=L, out_row=2, **DRAINED)],
        Kind.OVERLAP, (1,), Space.BUFFER, range(2, 4),
    ),
    "copy upwards": (
        [load(0, 20, signal=V), copy(0, 3, 8, wait=L)],
        Kind.OVERLAP, (1,), Space.BUFFER, range(3, 8),
    ),
    "wait not met": ([load(0, 4, wait=X)], Kind.WAIT, (0,), Space.TOKENS, range(1)),
    "tokens left": ([load(0, 4, signal=S)], Kind.LEFTOVER, (), Space.TOKENS, range(1)),
    "full counter": (
        [load(i, 1, signal=S) for i in range(64)] + [store(i, 1, wait=L) for i in range(64)],
        Kind.COUNTER, (63,), Space.TOKENS, range(1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_reports(case):
    commands, kind, indices, space, place = CASES[case]
    found = violations(commands)
    assert [(x.kind, x.commands, x.space, x.place) for x in found] == [
        (kind, indices, space, place)
    ], [str(x) for x in found]


LEGAL = {
    "two layers": mlp(),
    "self token": [
        load(0, 12, signal=X), matmul(wait=L, signal=X, out_row=20, **DRAINED),
        matmul(wait=X, **KEEP | {"act_row": 20}),
    ],
    "write after read within an engine": [
        load(0, 12, signal=V), copy(0, 20, 8, wait=L), copy(8, 4, 4),
    ],
    "write after write within an engine": [load(0, 8), load(4, 8, signal=S), store(0, 12, wait=L)],
    "in place": [
        load(0, 24, signal=X | V), copy(23, 23, 1, wait=L),
        matmul(wait=L, out_row=0, drain=Drain.REQUANTIZE, record_row=4, **KEEP),
    ],
    "output below activations": [
        load(0, 40, signal=X), matmul(wait=L, act_row=10, out_row=8, drain=1, record_row=20),
    ],
    "63 tokens": [load(i, 1, signal=S) for i in range(63)]
    + [store(i, 1, wait=L) for i in range(63)],
    "prefetch of earlier weights": [
        load(0, 12, signal=X), matmul(wait=L, **KEEP), load(20, 4, signal=X),
        matmul(wait=L, prefetch=1, **KEEP | {"act_row": 20}),
    ],
    "order through a third engine": [
        load(0, 12, signal=V), copy(0, 30, 4, wait=L, signal=S), store(4, 4, wait=V),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", LEGAL)
def test_accepts(case):
    commands = [command for command in LEGAL[case] if command.opcode != Opcode.END]
    assert violations(commands) == ()


def test_reads_of_unwritten_dram_are_reported():
    dram = Dram(0x5000)
    dram.write(0x2000, bytes(48))
    found = violations([load(0, 16)], dram)
    assert [(x.kind, x.space, x.place) for x in found] == [
        (Kind.UNWRITTEN, Space.DRAM, range(0x2030, 0x2040))
    ]


def test_the_program_must_not_be_overwritten():
    commands = [load(0, 4, signal=S), store(0, 4, wait=L), end()]
    machine = Machine(CONFIG)
    for address, clean in ((0x2F00, True), (0x3000 - 64, False), (0x3010, True)):
        done = machine.run(commands, WINDOWS, filled_dram(), strict=False, program_address=address)
        assert (done.violations == ()) == clean
    assert done.violations == ()


def test_end_must_be_last():
    (found,) = violations([load(0, 4), end(), load(0, 4)])
    assert str(found) == "Behind END follow 2 commands"


def test_error_names_commands_and_rows():
    with pytest.raises(RaceError) as caught:
        Machine(CONFIG).run([load(0, 8), store(0, 8), end()], WINDOWS, filled_dram())
    assert str(caught.value) == (
        "The program is not legal. Command 1 STORE reads, not ordered after the write of "
        "command 0 LOAD: rows of the unified buffer 0 to 7"
    )
    assert caught.value.violations[0].commands == (0, 1)


def test_every_dropped_token_is_reported_unless_it_is_redundant():
    """Drop each token of the two layers: its wait, and the signal that it takes."""
    dropped = 0
    for taker, giver, engine in tokens(mlp()):
        commands = mlp()
        target = commands[taker].engine
        assert target is not None
        commands[taker] = without(commands[taker], "wait", engine)
        commands[giver] = without(commands[giver], "signal", target)
        found = violations(commands[:-1])
        assert all(x.kind in (RAW, WAR, WAW) for x in found)
        assert bool(found) != is_ordered(commands), (taker, giver, found)
        dropped += bool(found)
    assert dropped >= 13


def tokens(commands) -> list[tuple[int, int, Engine]]:
    """Return the taker, the giver and the giver's engine of each token."""
    given: dict[tuple[Engine, Engine], list[int]] = {(a, b): [] for a in Engine for b in Engine}
    found = []
    for i, command in enumerate(commands[:-1]):
        for engine in Engine:
            if command["wait"] >> engine & 1:
                found.append((i, given[engine, command.engine].pop(0), engine))
        for engine in Engine:
            if command["signal"] >> engine & 1:
                given[command.engine, engine].append(i)
    return found


def without(command: Command, name: str, engine: Engine) -> Command:
    assert command[name] >> engine & 1
    return command.replace(**{name: command[name] & ~(1 << engine)})


def is_ordered(commands) -> bool:
    """Say whether all conflicting accesses are ordered, from the transitive closure of a matrix."""
    count = len(commands) - 1
    before = np.eye(2 * count, dtype=bool)  # event i is the start of i, count + i its completion
    previous: dict[int, int | None] = {}
    latest: dict[Engine | None, int] = {}
    for i, command in enumerate(commands[:-1]):
        before[i, count + i] = True
        last = previous[i] = latest.get(command.engine)
        if last is not None:
            before[last, i] = before[count + last, count + i] = True
        latest[command.engine] = i
    for taker, giver, _ in tokens(commands):
        before[count + giver, taker] = True
    for _ in range(count.bit_length() + 2):
        before = before @ before

    touched = [footprint(command, CONFIG, WINDOWS) for command in commands[:-1]]
    for a in range(count):
        for b in range(a + 1, count):
            ended = before[count + a]
            early, engine = b, commands[b].engine
            if commands[b].opcode == Opcode.CONV and commands[b]["prefetch"]:
                early = previous[b]
            writes = set(touched[a].writes)
            if writes & set(touched[b].early_reads) and (early is None or not ended[early]):
                return False
            conflict = bool(writes & set(touched[b].reads))
            if commands[a].engine != engine:
                used = writes | set(touched[a].reads) | set(touched[a].early_reads)
                conflict |= bool(used & set(touched[b].writes))
                beats = [{x for span in touched[i].spans for x in span.beats} for i in (a, b)]
                conflict |= bool(beats[0] & beats[1])
            if conflict and not ended[b]:
                return False
    return True


def test_of_commands_in_place_that_are_alike_one_is_looked_at_closely():
    """Each copies rows down by one: it reads a row before it writes it. A copy up does not."""
    size = WINDOWS[-1].base + WINDOWS[-1].size
    detector = RaceDetector(
        CONFIG,
        buffer_written=np.ones(CONFIG.ub_rows, bool),
        dram_written=np.ones(size, bool),
    )
    finder, looked = ExtentFinder(CONFIG, WINDOWS), []

    def look(command: Command) -> Footprint:
        looked.append(command)
        return footprint(command, CONFIG, WINDOWS)

    down = [copy(row + 1, row, 8) for row in range(0, 50, 10)]
    up = [copy(60, 61, 8), copy(70, 71, 8)]
    for command in (*down, *up):
        extents = finder.find(command)
        assert extents is not None
        detector.follow(command, extents, partial(look, command))
    assert [x for x in looked if x in down] == down[:1]
    found = [(each.kind, each.commands) for each in detector.violations]
    assert found == [(Kind.OVERLAP, (5,)), (Kind.OVERLAP, (6,))]
