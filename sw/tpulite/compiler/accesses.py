"""What a command reads and writes: the ground on which tokens are placed."""

from dataclasses import dataclass

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Command, Drain, Opcode, RecordForm

__all__ = ["Accesses", "accesses"]

Ranges = tuple[range, ...]


@dataclass(frozen=True)
class Accesses:
    """Read and write sets of one command.

    Parameters
    ----------
    reads, writes : tuple of range
        Rows of the unified buffer.
    early : tuple of range
        Rows that MATMUL may read before its wait if it has ``prefetch``; not in ``reads``.
    window : int
        DRAM window of a transfer.
    dram_reads, dram_writes : tuple of range
        Beats of that window.
    """

    reads: Ranges = ()
    writes: Ranges = ()
    early: Ranges = ()
    window: int = 0
    dram_reads: Ranges = ()
    dram_writes: Ranges = ()


def accesses(command: Command, config: Config) -> Accesses:
    """Return the read and write sets of a command.

    Accumulators are left out: one in-order pipeline reads and writes them.

    Examples
    --------
    >>> accesses(Command.make(Opcode.LOAD, lines=2, rows=4, row=8, pitch=16), Config()).writes
    (range(8, 12), range(24, 28))
    """
    match command.opcode:
        case Opcode.LOAD:
            rows, beats = _transfer(command, config)
            return Accesses(writes=rows, window=command["window"], dram_reads=beats)
        case Opcode.STORE:
            rows, beats = _transfer(command, config)
            return Accesses(reads=rows, window=command["window"], dram_writes=beats)
        case Opcode.MATMUL:
            return _matmul(command, config)
        case Opcode.COPY:
            return Accesses(
                reads=_lines(command, "src_row", "src_pitch"),
                writes=_lines(command, "dst_row", "dst_pitch"),
            )
    return Accesses()


def _lines(command: Command, row: str, pitch: str) -> Ranges:
    starts = (command[row] + line * command[pitch] for line in range(command["lines"]))
    return _merge([range(start, start + command["rows"]) for start in starts])


def _transfer(command: Command, config: Config) -> tuple[Ranges, Ranges]:
    beats = -(-command["rows"] * config.row_bytes // BEAT_BYTES)
    starts = (
        (command["offset"] + line * command["stride"]) // BEAT_BYTES
        for line in range(command["lines"])
    )
    return _lines(command, "row", "pitch"), _merge([range(s, s + beats) for s in starts])


def _matmul(command: Command, config: Config) -> Accesses:
    m, pitch = command["m"], command["act_pitch"]
    starts = (command["act_row"] + k * pitch for k in range(command["k_tiles"]))
    weight = command["weight_row"]
    early = [range(weight, weight + command["k_tiles"] * config.array_size)]
    writes: Ranges = ()
    if command["drain"] == Drain.REQUANTIZE:
        short = command["record_form"] == RecordForm.SHORT
        rows = config.short_record_rows if short else config.record_rows
        early.append(range(command["record_row"], command["record_row"] + rows))
    if command["drain"] != Drain.KEEP:
        rows = 4 * m if command["drain"] == Drain.RAW else m
        writes = (range(command["out_row"], command["out_row"] + rows),)
    return Accesses(_merge([range(s, s + m) for s in starts]), writes, tuple(early))


def _merge(ranges: list[range]) -> Ranges:
    """Join ranges that follow each other."""
    merged = ranges[:1]
    for piece in ranges[1:]:
        if piece.start == merged[-1].stop:
            merged[-1] = range(merged[-1].start, piece.stop)
        else:
            merged.append(piece)
    return tuple(merged)
