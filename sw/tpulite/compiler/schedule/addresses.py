"""Encoding: commands get the rows of their buffers."""

from collections.abc import Mapping, Sequence

from tpulite.arch.isa import Command, Opcode
from tpulite.compiler.ops import Buffer, Op
from tpulite.compiler.schedule.scheduled import Schedule

__all__ = ["encode", "encode_ops"]

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
        fields = {**_ZEROS[op.opcode], **op.fields}
        for name, region in op.rows.items():
            buffer = region.buffer
            fields[name] = (rows[buffer] if buffer.row is None else buffer.row) + region.row
        commands.append(Command(op.opcode, fields))
    commands.append(Command.make(Opcode.END))
    return tuple(commands), tuple(op.layer for op in ops)
