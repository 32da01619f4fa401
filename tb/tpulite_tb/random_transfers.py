"""Random LOADs and STOREs."""

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.effects import effects
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite_tb.random_records import Block, BlockKind
from tpulite_tb.random_state import Drawn, State

__all__ = [
    "block_load",
    "draw_block_load",
    "draw_dump",
    "draw_fill",
    "draw_load",
    "draw_store",
]


def draw_fill(state: State) -> Drawn:
    """Draw a LOAD of many rows, which gives the next commands something to work on."""
    limit = state.config.ub_rows
    rows = state.rng.randint(limit // 4, limit // 2)
    row = state.rng.randint(0, limit - rows)
    command = Command.make(Opcode.LOAD, window=Window.INPUT, lines=1, rows=rows, row=row)
    return state.drawn(command, tags=_tags(state, command))


def draw_load(state: State) -> Drawn:
    """Draw a LOAD of lines of anything."""
    window = state.rng.choice([Window.CONSTANTS, Window.INPUT, Window.INPUT, Window.SCRATCH])
    command = _draw_transfer(state, Opcode.LOAD, window)
    return state.drawn(command, tags=_tags(state, command))


def draw_block_load(state: State, *kinds: BlockKind) -> Drawn:
    """Draw a LOAD of a usable block of constants, of any kind unless told which."""
    kinds = kinds or tuple(BlockKind)
    blocks = [block for block in state.blocks if block.usable and block.kind in kinds]
    return block_load(state, state.rng.choice(blocks))


def block_load(state: State, block: Block) -> Drawn:
    """Draw a LOAD of one block of constants."""
    row = state.rng.randrange(state.config.ub_rows - block.rows + 1)
    command = Command.make(
        Opcode.LOAD, window=Window.CONSTANTS, offset=block.offset, lines=1, rows=block.rows, row=row
    )
    return state.drawn(command, tags=(("constants", block.kind),), block=block)


def draw_store(state: State) -> Drawn | None:
    """Draw a STORE of lines of written rows; None if there are no such rows."""
    window = state.rng.choice([Window.OUTPUT, Window.OUTPUT, Window.SCRATCH])
    for _ in range(8):
        command = _draw_transfer(state, Opcode.STORE, window)
        touched = effects(command, state.config)
        if state.is_written(touched.reads):
            return state.drawn(command, touched=touched, tags=_tags(state, command))
    return None


def draw_dump(state: State) -> list[Drawn]:
    """Draw STOREs of the longest runs of written rows, so that few results remain unseen."""
    runs = sorted(state.written_runs(), key=len)[-3:]
    window = state.windows[Window.OUTPUT].size // BEAT_BYTES
    dump = []
    for run in runs:
        beats = -(-len(run) * state.config.row_bytes // BEAT_BYTES)
        command = Command.make(
            Opcode.STORE, window=Window.OUTPUT, lines=1, rows=len(run), row=run.start,
            offset=state.rng.randint(0, window - beats) * BEAT_BYTES,
        )  # fmt: skip
        dump.append(state.drawn(command, tags=_tags(state, command)))
    return dump


def _tags(state: State, command: Command) -> tuple[tuple[str, str], ...]:
    partial = command["rows"] * state.config.row_bytes % BEAT_BYTES
    flip = "flip" if command["flip"] else "as it is"
    lines = "one line" if command["lines"] == 1 else "lines"
    return ((flip, "partial beat" if partial else "whole beats"), ("shape", lines))


def _draw_transfer(state: State, opcode: Opcode, window: Window) -> Command:
    rng, limit = state.rng, state.config.ub_rows
    lines = rng.choice([1, 1, 2, rng.randint(1, 6)])
    rows = rng.choice([1, rng.randint(1, 8), rng.randint(1, min(80, limit // 3))])
    pitch = rng.choice([0, 1, rows, rng.randint(0, 2 * rows)])
    pitch = 0 if lines == 1 else min(pitch, (limit - rows) // (lines - 1))
    beats = -(-rows * state.config.row_bytes // BEAT_BYTES)
    rest = state.windows[window].size // BEAT_BYTES - beats
    stride = 0 if lines == 1 else rng.randint(0, min(2 * beats, rest // (lines - 1)))
    return Command.make(
        opcode,
        window=window,
        offset=rng.randint(0, rest - stride * (lines - 1)) * BEAT_BYTES,
        stride=stride * BEAT_BYTES,
        lines=lines,
        rows=rows,
        row=rng.randint(0, limit - rows - pitch * (lines - 1)),
        pitch=pitch,
        flip=rng.random() < 0.3,
    )
