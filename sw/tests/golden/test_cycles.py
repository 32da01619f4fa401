"""The cycle model on programs whose cycles follow from the design."""

from dataclasses import replace

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Axis, Command, Drain, Engine, Opcode, VectorOp, dense
from tpulite.arch.memory import MemoryTiming
from tpulite.arch.registers import EngineState
from tpulite.compiler.options import Options
from tpulite.golden.timing import (
    Timeline,
    measured_once,
    predict,
    predict_cycles,
    program_cycles,
    total_cycles,
)
from tpulite.models import MLP_DIGITS
from tpulite.runtime.model import Model
from tpulite_testing.timing import yardsticks

CONFIG = Config()
END = Command.make(Opcode.END)
LOAD, STORE, MXU, VPU = (1 << engine for engine in Engine)
FIRST = 54
"""Cycle in which a first LOAD is taken: 50 to its first beat, 3 more until it is dispatched."""


def load(rows, **fields):
    return Command.make(Opcode.LOAD, **{"lines": 1, "rows": rows, **fields})


def store(rows, **fields):
    return Command.make(Opcode.STORE, **{"lines": 1, "rows": rows, **fields})


def conv(m, k_tiles=1, **fields):
    return Command.make(Opcode.CONV, **dense(m=m, k_tiles=k_tiles, act_pitch=m, **fields))


def vector(outputs, operation=VectorOp.COPY, **fields):
    ones = dict.fromkeys(("window_rows", "window_columns", "a_step", "b_step", "out_step"), 1)
    shape = {"operation": operation, "rows": 1, "columns": outputs}
    return Command.make(Opcode.VECTOR, **ones | shape | fields)


def run(*commands, config=CONFIG) -> Timeline:
    timeline = predict((*commands, END), config)
    assert predict_cycles((*commands, END), config) == timeline.cycles
    for engine in Engine:
        mine = [times for times in timeline.times if times.engine == engine]
        assert sum(timeline.engine(engine).values()) == timeline.cycles
        assert min(timeline.engine(engine).values()) >= 0
        stop = 0
        for times in mine:
            assert stop <= times.first <= times.stop <= timeline.cycles
            assert times.dispatch < times.start
            assert times.busy + times.token + times.buffer + times.axi == times.stop - times.first
            assert min(times.busy, times.token, times.buffer, times.axi) >= 0
            stop = times.stop
    return timeline


def test_no_work_takes_a_fetch():
    assert run().cycles == 55


def test_a_load_takes_latency_and_a_row_a_cycle():
    (times, _) = run(load(1000)).times
    assert (times.dispatch, times.start, times.first) == (FIRST - 1, FIRST + 1, FIRST)
    assert times.stop == FIRST + 1 + 2 + 50 + 1000 + 1
    assert times.axi == pytest.approx(45, abs=5)


@pytest.mark.parametrize("size", [4, 16])
def test_a_k_tile_of_int4_takes_its_vectors_or_half_of_n_cycles(size):
    config = Config(array_size=size, int4=True)
    for m, pace in ((1, size // 2), (size, size), (100, 100)):
        long, short = (run(conv(m, tiles, int4=1), config=config).cycles for tiles in (24, 4))
        assert long - short == pytest.approx(20 * pace, abs=3)


@pytest.mark.parametrize(("size", "cycles"), [(4, 1), (8, 1), (16, 1), (32, 2)])
def test_a_row_takes_the_beats_that_it_has(size, cycles):
    config = Config(array_size=size)
    for command in (load, store):
        long, short = (run(command(rows), config=config).cycles for rows in (1016, 16))
        assert long - short == 1000 * cycles


def test_short_lines_wait_for_outstanding_bursts():
    """Eight bursts of a row need a latency; eight lines of 16 rows do not."""
    fields = {"stride": 1024, "pitch": 1}
    assert run(load(1, lines=160, **fields)).cycles > 160 / 8 * 52
    assert run(load(16, lines=10, **fields)).cycles == run(load(160)).cycles
    assert run(store(1, lines=160, **fields)).cycles > 160 / 8 * 11
    assert run(store(2, lines=80, **fields)).cycles == run(store(160)).cycles


def test_lines_across_pages_have_another_burst():
    """Only bursts that do not come in time show it."""
    for offset in (0, 4096 - 16):
        assert run(load(1000, offset=offset)).cycles == run(load(1000)).cycles
    crossing = load(2, lines=40, offset=4096 - 16, stride=4096)
    assert run(crossing).cycles > run(load(2, lines=40, stride=4096)).cycles + 100


def test_a_k_tile_takes_its_vectors_or_n_cycles():
    for m, pace in ((1, 16), (100, 100)):
        long, short = (run(conv(m, tiles)).cycles for tiles in (24, 4))
        assert long - short == pytest.approx(20 * pace, abs=2)


def test_dense_mode_has_a_slot_more_in_a_line():
    shape = {"rows": 4, "columns": 25, "height": 4, "width": 25}
    plain = conv(100, 8, **shape)
    assert run(plain.replace(byte_step=3)).cycles - run(plain).cycles == pytest.approx(32, abs=2)


def test_depthwise_takes_its_stream():
    fields = {"rows": 4, "columns": 50, "kernel_rows": 3, "kernel_columns": 3, "depthwise": 1}
    command = conv(200, **fields, inner=Axis.Y, height=6, width=52)
    two, one = (run(*[command] * count).cycles for count in (2, 1))
    assert two - one == 6 * 52


def test_drains_into_few_lanes_and_raw_ones_are_slow():
    keep = run(conv(100)).cycles
    raw = run(conv(100, drain=Drain.RAW)).cycles
    assert raw - keep == pytest.approx(99 * (RAW_ROWS - 1), abs=5)
    lanes = Config(requant_lanes=2)
    slow = run(conv(100, drain=Drain.REQUANTIZE), config=lanes).cycles
    assert slow - run(conv(100, drain=Drain.REQUANTIZE)).cycles == pytest.approx(100 * 7, abs=10)


def test_prefetched_weights_hide():
    pair = (conv(64, signal=MXU), conv(64, wait=MXU))
    hidden = (pair[0], conv(64, wait=MXU, prefetch=1))
    assert run(*pair).cycles - run(*hidden).cycles == pytest.approx(16, abs=2)


def test_a_vector_command_takes_its_vectors():
    for operation, cycles in ((VectorOp.COPY, 1), (VectorOp.ADD, 2), (VectorOp.MUL, 1)):
        long, short = (run(vector(size, operation, b_row=3)).cycles for size in (500, 100))
        assert long - short == 400 * cycles
    window = {"window_rows": 3, "window_columns": 3}
    long, short = (run(vector(size, VectorOp.MAX, **window)).cycles for size in (100, 50))
    assert long - short == 9 * 50
    lanes = Config(vector_lanes=4)
    long, short = (run(vector(s, VectorOp.ADD, b_row=3), config=lanes).cycles for s in (100, 50))
    assert long - short == 8 * 50


def test_tokens_order_engines_and_are_the_reason():
    parallel = run(load(2000), conv(16, 100))
    serial = run(load(2000, signal=MXU), conv(16, 100, wait=LOAD))
    assert parallel.cycles < 2200
    assert serial.cycles > 2000 + 1600
    times = serial.times[1]
    assert times.giver == Engine.LOAD
    assert times.token > 1900
    assert times.start == serial.times[0].stop


def test_a_full_queue_holds_back_what_is_behind():
    waiting = [store(1, wait=MXU) for _ in range(CONFIG.queue_depth + 1)]
    gives = [conv(1, signal=STORE) for _ in waiting]
    free = run(*gives, *waiting[:16], load(1), waiting[16])
    full = run(*gives, *waiting, load(1), load(1, lines=2))
    assert free.times[-3].start < free.times[-4].start
    assert full.times[-3].dispatch > full.times[len(gives)].start


def test_a_full_counter_holds_back_tokens():
    """63 tokens fit; the others come as fast as tokens are taken."""
    gives = [load(1, signal=STORE) for _ in range(80)]
    takes = [store(4, wait=LOAD) for _ in range(80)]
    timeline = run(*gives, *takes)
    assert timeline.cycles > 80 * 4
    assert all(times.giver == Engine.LOAD for times in timeline.times[80:-1])


def test_commands_are_fetched_in_bursts_that_share_the_channel():
    many = [load(1) for _ in range(64)]
    assert run(*many).cycles > 64 / 16 * 50
    long = run(load(3000), *[conv(1) for _ in range(64)])
    assert long.cycles > run(load(3000)).cycles + 2 * (64 - 16)


def test_a_token_that_never_comes():
    with pytest.raises(ValueError, match=r"^Command 1 of STORE waits for a token for ever$"):
        predict((load(1), store(1, wait=LOAD), END), CONFIG)


@pytest.fixture(scope="module")
def program():
    return Model.load(MLP_DIGITS, options=Options(batch=16, effort=0)).programs[0]


def test_the_dump_has_a_line_a_command(program):
    timeline = run(*program.commands[:-1])
    lines = timeline.dump().splitlines()
    assert len(lines) == 1 + len(program.commands) + 1 + len(Engine)
    assert lines[0].split()[:3] == ["command", "dispatch", "start"]
    first = timeline.times[0]
    assert lines[1].split()[:4] == ["0", str(first.dispatch), str(first.start), str(first.first)]
    assert lines[len(program.commands)].split()[-1] == "END"
    assert f"{timeline.cycles:,} cycles" in lines
    busy = timeline.engine(Engine.MXU)[EngineState.BUSY]
    assert f"busy {busy:,}" in next(line for line in lines if line.startswith("MXU"))


def test_a_prediction_is_repeatable(program):
    assert predict(program.commands, CONFIG) == predict(program.commands, CONFIG)


def test_it_is_fast(program):
    """Tens of microseconds a command."""
    cost = yardsticks(lambda: predict_cycles(program.commands, CONFIG)) / len(program.commands)
    print(f"{cost:.1f} yardsticks a command")
    assert cost < 60


def test_programs_that_differ_in_data_are_measured_once():
    program = Model.load(MLP_DIGITS).programs[0]
    other = replace(program, constants=bytes(len(program.constants)))
    longer = replace(program, commands=(*program.commands[:-1], *program.commands[-2:]))
    slower = replace(program, memory=MemoryTiming(read_latency=200))
    measured = []

    def measure(program):
        measured.append(program)
        return len(measured)

    assert measured_once((program, other, longer, program, slower), measure) == [1, 1, 2, 1, 3]
    assert measured == [program, longer, slower]
    assert total_cycles((program, other)) == 2 * program_cycles(program)
