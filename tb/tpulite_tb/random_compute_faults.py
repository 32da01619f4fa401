"""Random CONVs and VECTORs that must stop the machine."""

from tpulite.arch.config import RECORD_BYTES
from tpulite.arch.effects import parameter_rows, record_rows, steps_of, tile_count, tile_rows
from tpulite.arch.isa import RAW_ROWS, RECORD, Command, Drain, Opcode, RecordForm, VectorOp
from tpulite.golden.effects.footprint import record_offset
from tpulite_tb.random_conv import draw_conv
from tpulite_tb.random_faults import ROW_LIMIT, BadCommands
from tpulite_tb.random_records import BlockKind
from tpulite_tb.random_state import Drawn, State, hazard, mask
from tpulite_tb.random_transfers import block_load
from tpulite_tb.random_vector import draw_vector

__all__ = ["draw_bad_record", "draw_conv_out_of_buffer", "draw_vector_out_of_buffer"]


def draw_conv_out_of_buffer(state: State) -> BadCommands | None:
    """Draw a CONV that leaves the unified buffer or the accumulators; None if in vain."""
    drawn = draw_conv(state)
    if drawn is None:
        return None
    rng, config, command = state.rng, state.config, drawn.command
    c, buffer = command.fields, config.ub_rows
    raw = RAW_ROWS - 1 if c["drain"] == Drain.RAW else 0
    down, right = c["rows"] - 1, c["columns"] - 1
    image = (c["height"] - 1) * c["act_pitch"] + c["width"] - 1
    # For each field: how often it counts, and what lies beyond.
    cases = [
        ("acc_row", 1, c["rows"] * c["columns"] - 1, config.acc_rows, 1 << 10),
        (
            "weight_row",
            1,
            tile_count(command) * tile_rows(command["int4"], config) - 1,
            buffer,
            ROW_LIMIT,
        ),
        ("act_row", 1, image + (c["blocks"] - 1) * c["act_block_pitch"], buffer, ROW_LIMIT),
    ]
    if c["height"] > 1:
        rest = c["act_row"] + (c["blocks"] - 1) * c["act_block_pitch"] + c["width"] - 1
        cases.append(("act_pitch", c["height"] - 1, rest, buffer, ROW_LIMIT))
    if c["blocks"] > 1:
        rest = c["act_row"] + image
        cases.append(("act_block_pitch", c["blocks"] - 1, rest, buffer, ROW_LIMIT))
    if c["drain"] == Drain.REQUANTIZE:
        rows = record_rows(c["record_form"], config)
        cases.append(("record_row", 1, rows - 1, buffer, ROW_LIMIT))
    if c["drain"] != Drain.KEEP:
        rest = down * c["out_pitch"] + right * c["out_step"] + raw
        cases.append(("out_row", 1, rest, buffer, ROW_LIMIT))
        if down:
            rest = c["out_row"] + right * c["out_step"] + raw
            cases.append(("out_pitch", down, rest, buffer, ROW_LIMIT))
        if right:
            rest = c["out_row"] + down * c["out_pitch"] + raw
            cases.append(("out_step", right, rest, buffer, ROW_LIMIT))
    name, times, rest, limit, values = rng.choice(cases)
    low = max(0, -((rest - limit) // times))
    if low >= values:
        return None
    value = rng.choice([low, rng.randrange(low, values)])
    if name == "acc_row" and c["int16"]:  # an odd one is illegal at once
        value = min(value + value % 2, values - 2)
    command = command.replace(**{name: value})
    return BadCommands([Drawn(command)], times * command[name] + rest, name)


def draw_vector_out_of_buffer(state: State) -> BadCommands | None:
    """Draw a VECTOR that leaves the unified buffer, at once or later; None if in vain."""
    drawn = draw_vector(state)
    if drawn is None:
        return None
    rng, limit, command = state.rng, state.config.ub_rows, drawn.command
    operation = VectorOp(command["operation"])
    count = parameter_rows(operation, state.config)
    low = limit - count + 1
    if count and low < ROW_LIMIT and rng.random() < 0.25:
        row = rng.choice([low, rng.randrange(low, ROW_LIMIT)])
        bad = Drawn(command.replace(param_row=row))
        return BadCommands([bad], row + count - 1, "parameters")
    names = [f"{x}_{y}" for x in ("a", "b", "out") for y in ("row", "pitch", "step")]
    names.append("window_pitch")
    for _ in range(20):
        name = rng.choice(names)
        near = limit - 1 - rng.randrange(24)
        value = rng.choice([near, rng.randrange(ROW_LIMIT), rng.randrange(limit)])
        bad = _until_outside(state, command.replace(**{name: value}), drawn.early, name)
        if bad is not None:
            return bad
    return None


def _until_outside(state: State, command: Command, early: int, name: str) -> BadCommands | None:
    """Follow a VECTOR to its first row outside; None if there is none or it is illegal before."""
    reads: list[int] = []
    writes: list[int] = []
    before: list[int] = []
    for step in steps_of(command, state.config):
        outside = [row for row in (*step.writes, *step.reads) if row >= state.config.ub_rows]
        if outside:
            if hazard(reads, writes, before) or not state.is_written(reads):
                return None
            bad = Drawn(command, early, mask(reads), mask(writes))
            when = "later" if writes else "at once"
            return BadCommands([bad], outside[0], f"{name} {when}")
        reads += step.reads
        writes += step.writes
        before.append(len(reads))
    return None


def draw_bad_record(state: State) -> BadCommands | None:
    """Draw a command whose channel records have a rounding that is not there; None if in vain."""
    drawn = state.rng.choice([draw_conv, draw_vector])(state)
    if drawn is None:
        return None
    command = drawn.command
    if command.opcode == Opcode.CONV:
        if command["drain"] != Drain.REQUANTIZE:
            return None
        kinds, name, offset = (BlockKind.FULL, BlockKind.SHORT), "record_row", 0
    else:
        operation = VectorOp(command["operation"])
        if operation in (VectorOp.COPY, VectorOp.MAX, VectorOp.LUT, VectorOp.NORM):
            return None
        kind = BlockKind.OPERANDS
        if operation in (VectorOp.SUM, VectorOp.AFFINE):
            kind = BlockKind.SHORT if operation == VectorOp.SUM else BlockKind.FULL
        if operation == VectorOp.SHARE:
            kind = BlockKind.WORDS
        kinds, name, offset = (kind,), "param_row", record_offset(operation, state.config)
    bad = [block for block in state.blocks if not block.usable and block.kind in kinds]
    load = block_load(state, state.rng.choice(bad))
    assert load.block is not None
    row, kind = load.command["row"], load.block.kind
    command = command.replace(**{name: row})
    if command.opcode == Opcode.CONV:
        command = command.replace(record_form=RecordForm[kind.name])
    # The row with the rounding of the last record.
    channel = state.config.array_size - 1 if kind == BlockKind.FULL else 0
    bit = 8 * RECORD_BYTES * channel + RECORD.offsets()["rounding"]
    address = row + offset + bit // (8 * state.config.row_bytes)
    bad_command = Drawn(command, state.drawn(command).early, drawn.reads, drawn.writes)
    return BadCommands([load, bad_command], address, kind)
