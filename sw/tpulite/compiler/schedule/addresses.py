"""Encoding: commands get the rows of their buffers."""

from collections.abc import Mapping, Sequence

from tpulite.arch.isa import Command, Opcode, VectorOp
from tpulite.compiler.ops import Buffer, Op
from tpulite.compiler.schedule.scheduled import Schedule

_ZEROS = {opcode: Command.make(opcode).fields for opcode in Opcode}


def encode(
    schedule: Schedule, rows: Mapping[Buffer, int]
) -> tuple[tuple[Command, ...], tuple[int, ...]]:
    """Return the commands of a schedule.

    Parameters
    ----------
    schedule : Schedule
        Commands in their final order.
    rows : mapping of Buffer to int
        First row of every buffer that is not resident.

    Returns
    -------
    commands : tuple of Command
        The program without tokens, END last.
    layers : tuple of int
        Layer of each command but END.
    """
    return encode_ops(schedule.ops, rows)


def encode_ops(
    ops: Sequence[Op], rows: Mapping[Buffer, int]
) -> tuple[tuple[Command, ...], tuple[int, ...]]:
    """Return the commands of ``ops``, which are in their final order; else as :func:`encode`."""
    commands = []
    for op in ops:
        places = {
            name: (rows[region.buffer] if region.buffer.row is None else region.buffer.row)
            + region.row
            for name, region in op.rows.items()
        }
        commands.append(Command(op.opcode, _ZEROS[op.opcode] | addressed(op, places)))
    commands.append(Command.make(Opcode.END))
    return tuple(commands), tuple(op.layer for op in ops)


def addressed(op: Op, places: Mapping[str, int]) -> dict[str, int]:
    """Return the fields of a command whose regions are in these rows.

    The larger one of two activations is a window of two rows, from the first one to the other.
    """
    if op.fields.get("operation") != VectorOp.MAX or "b_row" not in places:
        return {**op.fields, **places}
    first, last = sorted((places["a_row"], places["b_row"]))
    window = {"window_rows": 2, "window_pitch": last - first, "a_row": first}
    window |= dict.fromkeys(("b_row", "b_pitch", "b_step"), 0)
    return {**op.fields, **places, **window}
