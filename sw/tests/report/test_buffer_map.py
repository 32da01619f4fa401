"""What lies in the buffer from when until when: all that commands read and write is there."""

from dataclasses import dataclass

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Engine, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.options import Options
from tpulite.golden.effects.extents import Toucher
from tpulite.golden.effects.grids import expand
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.program import LayerInfo, Program
from tpulite.report.buffer_map import Block, map_buffer
from tpulite.report.spending import command_layers, executed
from tpulite.report.traced_run import TracedRun, trace_runs
from tpulite.runtime.model import Model


@dataclass(frozen=True)
class Trace:
    index: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    cycles: np.ndarray


def trace(*commands: tuple[int, int, int]) -> Trace:
    index, start, stop = np.array(commands).T
    return Trace(index, start, stop, np.zeros((len(commands), 5), int))


def load(row: int, window: Window) -> Command:
    return Command.make(Opcode.LOAD, rows=4, lines=1, row=row, window=window)


def test_blocks_last_from_their_writer_to_their_last_reader() -> None:
    store = Command.make(Opcode.STORE, rows=8, lines=1, row=0, window=Window.OUTPUT)
    program = Program(
        Config(),
        (
            *(load(0, Window.CONSTANTS), load(4, Window.INPUT), store),
            *(load(0, Window.CONSTANTS), Command.make(Opcode.END)),
        ),
        layers=(LayerInfo("a", 1, 0, 1, (2,), (0, 1)), LayerInfo("b", 1, 0, 1, (), (3,))),
        resident=((2, 16),),
    )
    traces = {
        Engine.LOAD: trace((0, 10, 20), (1, 20, 30), (3, 60, 70)),
        Engine.STORE: trace((2, 30, 50)),
    }
    assert sorted(map_buffer(TracedRun(program, traces, 100), 100)) == [
        Block(-1, "before the run", 2, 4, 0, 10),
        Block(-1, "before the run", 4, 8, 0, 20),
        Block(-1, "before the run", 8, 16, 0, 100),
        Block(0, "input", 4, 8, 20, 50),
        Block(0, "weights", 0, 4, 10, 50),
        Block(1, "weights", 0, 4, 60, 70),
    ]


@pytest.mark.parametrize(
    ("path", "options"),
    [(CNN_DIGITS, Options()), (MLP_DIGITS, Options(batch=16, resident=True, effort=0))],
)
@pytest.mark.parametrize("steps", [50, 5000])
def test_what_commands_touch_lies_in_a_block(path, options: Options, steps: int) -> None:
    (run,) = trace_runs(Model.load(path, options=options))
    layer, _, row, end, start, stop = map(np.array, zip(*map_buffer(run, steps), strict=True))
    toucher, owners = Toucher(run.program.config), command_layers(run.program)

    def lies(rows: np.ndarray, wanted: np.ndarray) -> bool:
        return bool(((rows[:, None] >= row) & (rows[:, None] < end) & wanted).any(axis=1).all())

    for engine in run.traces.values():
        for number, _, begin, done, _ in executed(engine):
            touched = toucher.touched(run.program.commands[number])
            for place in touched.writes:
                assert lies(expand(place), (layer == owners[number]) & (start <= begin))
            for place in (*touched.reads, *touched.early_reads):
                assert lies(expand(place), (start < done) & (begin <= stop))
