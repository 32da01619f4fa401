"""Random VECTORs of every operation."""

from collections.abc import Sequence

from tpulite.arch.effects import BINARY, ELEMENTWISE, WINDOWED, effects, parameter_rows
from tpulite.arch.isa import Command, Opcode, VectorOp, operations
from tpulite_tb.random_records import BlockKind
from tpulite_tb.random_state import Drawn, State, hazard, mask

__all__ = ["PARAMETER_BLOCKS", "draw_vector"]

PARAMETER_BLOCKS = {
    VectorOp.SUM: (BlockKind.FULL, BlockKind.SHORT),
    VectorOp.AFFINE: (BlockKind.FULL,),
    VectorOp.SHARE: (BlockKind.WORDS,),
    **dict.fromkeys(ELEMENTWISE, (BlockKind.OPERANDS,)),
}
"""Blocks that begin with the parameters of an operation."""


def draw_vector(state: State) -> Drawn | None:
    """Draw a VECTOR on written rows; None if there are no such rows."""
    rng, config = state.rng, state.config
    operation = rng.choice(operations(config))
    param_row, name = rng.randrange(1 << 14), "-"
    if operation in PARAMETER_BLOCKS:
        found = state.resident(*PARAMETER_BLOCKS[operation])
        if found is None:
            return None
        param_row, name = found[0], found[1].name
    elif operation in (VectorOp.LUT, VectorOp.NORM):
        table = state.written_run(parameter_rows(operation, config))
        if table is None:
            return None
        param_row = table
    bounds = [rng.randrange(-128, 128), rng.randrange(-128, 128)]
    # Bounds may be the wrong way round: the upper one wins.
    low, high = rng.choice([(-128, 127), (-128, 127), (0, 127), bounds])
    for _ in range(8):
        command = Command.make(
            Opcode.VECTOR, operation=operation, param_row=param_row, low=low, high=high,
            **_places(state, operation),
        )  # fmt: skip
        touched = effects(command, config)
        reads, writes = touched.reads, touched.writes
        if max((*reads, *writes)) >= config.ub_rows or not state.is_written(reads):
            continue
        if not hazard(reads, writes, touched.reads_before):
            tags = _tags(command, name, reads, writes)
            return state.drawn(command, touched=touched, tags=tags)
    return None


def _places(state: State, operation: VectorOp) -> dict[str, int]:
    rng, limit = state.rng, state.config.ub_rows
    rows, columns = rng.choice([1, 2, rng.randint(1, 5)]), rng.choice([1, rng.randint(1, 12)])
    if operation == VectorOp.COPY and rng.random() < 0.3:
        columns = rng.randint(1, min(80, limit // 4))
    steps = [1, 1, 1, 2, rng.randint(0, 4)]
    places: dict[str, int] = {"rows": rows, "columns": columns}
    for name in ("a", "b", "out"):
        step = rng.choice(steps) if name != "b" else rng.choice([0, *steps])
        pitch = rng.choice([step * columns, step * columns, rng.randint(0, 2 * columns)])
        if name == "b" and rng.random() < 0.2:
            pitch = 0
        extent = (rows - 1) * pitch + (columns - 1) * step + 1
        run = state.written_run(extent) if name != "out" and rng.random() < 0.8 else None
        row = rng.randrange(limit) if run is None else run
        places |= {f"{name}_row": row, f"{name}_pitch": pitch, f"{name}_step": step}
    if rng.random() < 0.25:
        source = rng.choice(["a", "b"]) if operation in BINARY else "a"
        for field in ("row", "pitch", "step"):
            places[f"out_{field}"] = places[f"{source}_{field}"]
    # Windows are drawn for all operations: most must ignore them.
    size = rng.choice([(1, 1), (2, 2), (3, 3), (rng.randint(1, 6), rng.randint(1, 6))])
    if state.config.has_softmax:
        places["tail"] = rng.choice([0, rng.randrange(state.config.array_size)])
    places |= {"window_rows": size[0], "window_columns": size[1]}
    places["window_pitch"] = rng.choice([size[1], columns, rng.randint(0, 20)])
    return places


def _tags(
    command: Command, name: str, reads: Sequence[int], writes: Sequence[int]
) -> tuple[tuple[str, str], ...]:
    c = command.fields
    operation = VectorOp(c["operation"])
    title = operation.name.lower()
    m = len(writes)
    tags = [(title if name == "-" else f"{title} {name}", "one output" if m == 1 else "outputs")]
    if operation in WINDOWED:
        square = c["window_rows"] == c["window_columns"]
        window = f"{c['window_rows']}x{c['window_columns']}" if square else "uneven"
        tags.append((f"{title} window", window))
    if operation in BINARY:
        fixed = not c["b_pitch"] and not c["b_step"]
        tags.append((f"{title} B", "broadcast" if fixed and m > 1 else "moves"))
    whole = c["low"] == -128 and c["high"] == 127
    tags.append(
        (f"{title} clamp", "none" if whole else "swapped" if c["low"] > c["high"] else "yes")
    )
    if mask(writes) & mask(reads):
        tags.append((title, "over its operand"))
    return tuple(tags)
