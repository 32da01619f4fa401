import random

import pytest
from rich.console import Console

from tpulite.arch.config import Config
from tpulite.arch.effects import effects
from tpulite.arch.isa import Command, Opcode, VectorOp
from tpulite.arch.memory import Window
from tpulite.golden.timing import predict_cycles
from tpulite.models import CNN_DIGITS
from tpulite.program import Program
from tpulite.report import compilation_table, report_programs
from tpulite.report.buffer import BufferUse, buffer_use
from tpulite.report.traffic import dram_traffic
from tpulite.runtime.model import Model
from tpulite_testing.kept import kept_program

END = Command.make(Opcode.END)


def load(row, rows, lines=1, pitch=0, window=Window.INPUT):
    fields = {"row": row, "rows": rows, "lines": lines, "pitch": pitch, "window": window}
    return Command.make(Opcode.LOAD, **fields)


def store(row, rows, lines=1, pitch=0, window=Window.OUTPUT):
    fields = {"row": row, "rows": rows, "lines": lines, "pitch": pitch, "window": window}
    return Command.make(Opcode.STORE, **fields)


def clamp(source, target, count):
    """Return a VECTOR that reads and writes so many rows."""
    image = {"rows": 1, "columns": count, "a_row": source, "a_step": 1}
    return Command.make(
        Opcode.VECTOR,
        operation=VectorOp.MAX,
        window_rows=1,
        window_columns=1,
        out_row=target,
        out_step=1,
        **image,
    )


def program(*commands, config=None, resident=()):
    return Program(config or Config(), (*commands, END), resident=resident)


def test_traffic_is_whole_beats_of_each_window():
    commands = (
        load(0, 3, window=Window.CONSTANTS),
        load(8, 2, lines=5, pitch=2, window=Window.SCRATCH),
        store(8, 4, window=Window.SCRATCH),
        store(0, 1),
        store(0, 1),
    )
    traffic = dram_traffic(program(*commands))
    assert traffic.loads == {
        Window.CONSTANTS: 48,
        Window.INPUT: 0,
        Window.OUTPUT: 0,
        Window.SCRATCH: 160,
    }
    assert (traffic.stores[Window.SCRATCH], traffic.stores[Window.OUTPUT]) == (64, 32)
    assert (traffic.commands, traffic.read_bytes, traffic.written_bytes) == (192, 400, 96)
    # Three rows of four bytes are a beat that is not full.
    assert dram_traffic(program(load(0, 3, 2), config=Config(array_size=4))).read_bytes == 96


def test_rows_live_from_their_write_to_their_last_read():
    moves = (load(0, 8), load(100, 4), clamp(0, 200, 8), store(200, 8), clamp(100, 300, 4))
    # 8, 12, 12 + 8, 4 + 8, 4 + 4
    assert buffer_use(program(*moves, store(300, 4))) == BufferUse(touched=24, live=20, at=2)


def test_what_is_overwritten_or_never_read_takes_its_rows_once():
    # The second load makes the first one's rows useless, but takes no rows beside them.
    assert buffer_use(program(load(0, 8), load(0, 8), store(0, 8))).live == 8
    in_place = (load(0, 8), clamp(0, 0, 8), store(0, 8))
    assert buffer_use(program(*in_place)) == BufferUse(touched=8, live=8, at=0)
    # Rows 50 to 57 are needed by nobody while the others come and go.
    gap = (load(50, 8), store(50, 8), load(0, 8), store(0, 8), load(50, 8), store(50, 8))
    assert buffer_use(program(*gap)).live == 8


def test_what_was_there_before_lives_until_it_is_overwritten():
    assert buffer_use(program(load(0, 4), store(0, 4), resident=((10, 20),))).live == 14
    assert buffer_use(program(load(10, 10), store(10, 10), resident=((10, 20),))).live == 10
    assert buffer_use(program(resident=((10, 20),))) == BufferUse(touched=10, live=10, at=0)
    assert buffer_use(program()) == BufferUse(touched=0, live=0, at=0)


def plain_use(one):
    """Count live rows with sets, a row and a command at a time."""
    reads, writes = [], []
    for command in one.commands:
        touched = effects(command, one.config)
        reads.append({*touched.reads, *touched.early})
        writes.append({*touched.writes})
    counts = [0] * len(reads)
    for row in set().union(*reads, *writes):
        for number, written in enumerate(writes):
            if row not in written:
                continue
            last = number
            for later in range(number + 1, len(writes)):
                last = later if row in reads[later] else last
                if row in writes[later]:
                    last = min(last, later - 1)
                    break
            for live in range(number, last + 1):
                counts[live] += 1
    return max(counts), counts.index(max(counts))


@pytest.mark.parametrize("seed", range(20))
def test_use_of_random_programs(seed):
    rng = random.Random(seed)
    commands = [load(0, 40)]
    for _ in range(30):
        rows, source, target = rng.randint(1, 9), rng.randrange(30), rng.randrange(60)
        made = (load(target, rows), store(source, rows), clamp(source, target, rows))
        commands.append(rng.choice(made))
    use = buffer_use(program(*commands))
    assert (use.live, use.at) == plain_use(program(*commands))


def test_a_compiled_network_is_reported():
    (layers,) = Model.load(CNN_DIGITS).layers
    compiled = kept_program(layers, Config())
    report = report_programs([compiled], cycles=True)
    cycles = predict_cycles(compiled.commands, Config())
    assert report.cycles == cycles
    assert report_programs([compiled], cycles=False).cycles is None
    assert report.macs == 379_480  # of 397,952: the network has dead channels
    assert 256 < report.live_rows <= report.touched_rows <= report.ub_rows == 16384
    assert report.read_bytes >= len(compiled.constants) + 256 + 32 * report.commands
    assert (report.written_bytes, report.scratch_bytes) == (16, 0)
    twice = report_programs([compiled] * 2, cycles=True)
    assert (twice.cycles, twice.read_bytes) == (2 * cycles, 2 * report.read_bytes)
    assert twice.touched_rows == report.touched_rows

    console = Console(width=80)
    with console.capture() as capture:
        console.print(compilation_table({"now": report, "before": twice}, title="digits"))
    lines = capture.get().splitlines()
    (line,) = [line.split() for line in lines if "predicted cycles" in line]
    assert line == ["predicted", "cycles", f"{cycles:,}", f"{2 * cycles:,}"]
    assert f"DRAM: {report.read_bytes:,} bytes read, 16 written; " in report.line()
    assert f"of 16,384 rows used, {report.live_rows:,} live at the peak" in report.line()
