"""Readable text of schedules and allocations: what lives when, and where."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from tpulite.arch.isa import Command, disassemble
from tpulite.compiler.dump.text import columns
from tpulite.compiler.ops import Buffer, Op, Tiling
from tpulite.compiler.schedule.allocate import Allocation
from tpulite.compiler.schedule.scheduled import Lifetime, Schedule
from tpulite.graph.layers import LayerGraph


class Numbers:
    """Numbers of buffers, in the order in which commands name them first."""

    def __init__(self) -> None:
        self._numbers: dict[Buffer, int] = {}

    def __call__(self, buffer: Buffer) -> str:
        """Return what a buffer is called."""
        return f"#{self._numbers.setdefault(buffer, len(self._numbers))}"

    def buffers(self) -> tuple[Buffer, ...]:
        """Return all buffers that were called."""
        return tuple(self._numbers)


def op_text(op: Op, numbers: Numbers) -> str:
    """Return a command: its fields, then its places as rows of buffers."""
    places = [f"{name}={numbers(place.buffer)}+{place.row}" for name, place in op.rows.items()]
    reserved = [f"reserves {numbers(buffer)}" for buffer in op.reserve]
    text = disassemble(Command.make(op.opcode, **op.fields))
    return " ".join((text, *places, *reserved, *["barrier"] * op.barrier))


def tiling_text(tiling: Tiling, layers: LayerGraph) -> str:
    """Return all commands with the layers that they belong to, then all buffers."""
    numbers = Numbers()
    names = [layer.name for layer in layers.layers]
    rows = [(str(i), names[op.layer], op_text(op, numbers)) for i, op in enumerate(tiling.ops)]
    text = columns(("#", "layer", "command"), rows, right=(0,))
    heads = ("buffer", "rows", "bank", "what")
    buffers = [
        (
            numbers(buffer),
            str(buffer.rows),
            "" if buffer.bank is None else str(buffer.bank),
            buffer.name if buffer.row is None else f"{buffer.name}, at row {buffer.row}",
        )
        for buffer in numbers.buffers()
    ]
    return f"{text}\n{columns(heads, buffers, right=(1, 2))}"


_WIDTH, _HEIGHT = 96, 32
"""Characters of a picture: time to the right, rows of the unified buffer upwards."""

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_OTHER, _FREE = "+", "."


def schedule_text(schedule: Schedule, layers: LayerGraph) -> str:
    """Return the commands in their order, then from when to when each buffer lives."""
    numbers = Numbers()
    names = [layer.name for layer in layers.layers]
    commands = [
        (str(i), names[op.layer], op_text(op, numbers)) for i, op in enumerate(schedule.ops)
    ]
    lives = [
        (
            numbers(each.buffer),
            str(each.buffer.rows),
            "" if each.buffer.bank is None else str(each.buffer.bank),
            str(each.first),
            str(each.last),
            each.buffer.name + _in_place(each.buffer, schedule, numbers),
        )
        for each in schedule.lifetimes
    ]
    heads = ("buffer", "rows", "bank", "from", "to", "what")
    return (
        f"{len(schedule.ops)} commands; buffers take at the peak "
        f"{schedule.bound:,} rows\n"
        f"{columns(('#', 'layer', 'command'), commands, right=(0,))}\n"
        f"{columns(heads, lives, right=(1, 2, 3, 4))}"
    )


def allocation_text(allocation: Allocation, schedule: Schedule | None, ub_rows: int) -> str:
    """Return how many rows are used, where every buffer lies, and a picture of time and rows.

    Parameters
    ----------
    allocation : Allocation
        Places.
    schedule : Schedule, optional
        When each buffer lives; without it there is no picture.
    ub_rows : int
        Rows that there are.
    """
    share = f" ({allocation.peak / allocation.bound:.2f} times)" if allocation.bound else ""
    title = (
        f"{allocation.peak:,} of {ub_rows:,} rows used, at least {allocation.bound:,} "
        f"are needed{share}\n"
    )
    times = {} if schedule is None else {each.buffer: each for each in schedule.lifetimes}
    order = sorted(
        allocation.rows, key=lambda x: (allocation.rows[x], times[x].first if times else 0, x.name)
    )
    rows = [
        (
            f"{allocation.rows[buffer]}:{allocation.rows[buffer] + buffer.rows}",
            *((str(times[buffer].first), str(times[buffer].last)) if times else ("", "")),
            buffer.name,
        )
        for buffer in order
    ]
    table = columns(("rows", "from", "to", "what"), rows, right=(1, 2))
    drawn = "" if schedule is None else f"{picture(allocation.rows, schedule)}\n"
    return f"{title}\n{drawn}{table}"


def picture(rows: Mapping[Buffer, int], schedule: Schedule) -> str:
    """Return a map of the rows that are used, over the time in commands.

    The first row is at the bottom; numbers at the left are rows, and what no buffer ever takes is
    left out. A cell shows what lies at its middle. The largest buffers, by rows x commands, have
    letters.
    """
    used = sorted({row for x in schedule.lifetimes for row in _taken(x.buffer, rows)})
    middles = _middles(used, _HEIGHT), _middles(range(len(schedule.ops)), _WIDTH)
    letters = _letters(schedule)
    grid = [[_FREE] * len(middles[1]) for _ in middles[0]]
    for each in schedule.lifetimes:
        letter = letters.get(each.buffer, _OTHER)
        for line in _within(middles[0], _taken(each.buffer, rows)):
            for column in _within(middles[1], range(each.first, each.last + 1)):
                grid[line][column] = letter
    lines = [f"{row:6} {''.join(cells)}\n" for row, cells in zip(middles[0], grid, strict=True)]
    end = f"command {len(schedule.ops) - 1}"
    axis = f"{'':6} 0{end:>{len(middles[1]) - 1}}\n"
    legend = [
        (letter, str(buffer.rows), buffer.name)
        for buffer, letter in letters.items()
        if any(letter in cells for cells in grid)
    ]
    return f"{''.join(reversed(lines))}{axis}\n{columns(('', 'rows', 'what'), legend, right=(1,))}"


def _taken(buffer: Buffer, rows: Mapping[Buffer, int]) -> range:
    return range(rows[buffer], rows[buffer] + buffer.rows)


def _middles(values: Sequence[int], cells: int) -> list[int]:
    """Return the values in the middles of so many cells, or fewer if there are fewer values.

    Examples
    --------
    >>> _middles(range(8), 2), _middles([5, 9], 4)
    ([2, 6], [5, 9])
    """
    count, cells = len(values), min(len(values), cells)
    return [values[(2 * cell + 1) * count // (2 * cells)] for cell in range(cells)]


def _within(middles: list[int], span: range) -> range:
    """Return the cells whose middles lie in a range."""
    return range(bisect_left(middles, span.start), bisect_left(middles, span.stop))


def _letters(schedule: Schedule) -> dict[Buffer, str]:
    def area(each: Lifetime) -> int:
        return each.buffer.rows * (each.last + 1 - each.first)

    # Sorting is stable, so that equals stay in the order of first use.
    largest = sorted(schedule.lifetimes, key=area, reverse=True)
    return {each.buffer: letter for each, letter in zip(largest, _LETTERS, strict=False)}


def _in_place(buffer: Buffer, schedule: Schedule, numbers: Numbers) -> str:
    root = schedule.joined.get(buffer, buffer)
    return "" if root is buffer else f", in place of {numbers(root)}"
