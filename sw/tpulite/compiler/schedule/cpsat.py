"""Rectangles of time x rows, placed by OR-tools' solver: as few rows as possible."""

from collections.abc import Sequence

from tpulite.compiler.ops import Buffer
from tpulite.compiler.schedule.longest import highest_row, place_longest, rows_used
from tpulite.compiler.schedule.scheduled import Lifetime, lower_bound
from tpulite.needs import require_package

__all__ = ["place_cpsat"]

_EFFORT = 5.0
"""Limit of the solver in its own, deterministic unit: seconds, or a minute for 9,000 buffers."""


def place_cpsat(
    places: Sequence[Lifetime], rows: range, banks: int
) -> tuple[dict[Buffer, int], Lifetime | None]:
    """Place rectangles so that the highest row is as low as possible.

    The solver begins with what :func:`tpulite.compiler.schedule.longest.place_longest` finds. It
    is done when fewer rows than there are banks lie above the lower bound: so many are lost where
    buffers must begin in a bank. One worker, a fixed seed and a limit that counts operations: equal
    arguments give equal results.

    Parameters and results are those of
    :func:`tpulite.compiler.schedule.longest.place_longest`; if the solver finds nothing, so are
    the places.

    Raises
    ------
    ValueError
        If OR-tools are not installed.
    """
    require_package("ortools", "cpsat", "allocator 'cpsat'")
    from ortools.sat.python import cp_model

    hints, missing = place_longest(places, rows, banks)
    least = rows.start + lower_bound(places)
    ceiling = rows.stop if missing is not None else highest_row(hints)
    if least > rows.stop or (missing is None and ceiling < least + banks):
        return hints, missing

    model = cp_model.CpModel()
    top = model.new_int_var(least, ceiling, "")
    starts, times, spaces = {}, [], []
    for each in places:
        buffer = each.buffer
        # The first row that is in the bank; from there on, only multiples of the banks.
        step = 1 if buffer.bank is None else banks
        first = rows.start if buffer.bank is None else _align(rows.start, buffer.bank, banks)
        if first > ceiling - buffer.rows:
            return hints, missing or each
        turn = model.new_int_var(0, (ceiling - buffer.rows - first) // step, "")
        start = first + step * turn
        if buffer in hints:
            model.add_hint(turn, (hints[buffer] - first) // step)
        starts[buffer] = start
        times.append(model.new_fixed_size_interval_var(each.first, each.last + 1 - each.first, ""))
        spaces.append(model.new_fixed_size_interval_var(start, buffer.rows, ""))
        model.add(start + buffer.rows <= top)
    model.add_no_overlap_2d(times, spaces)
    model.minimize(top)

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.absolute_gap_limit = banks - 1
    solver.parameters.max_deterministic_time = _EFFORT
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return hints, missing
    found = {buffer: solver.value(start) for buffer, start in starts.items()}
    # Rows that no buffer takes do not count, though they may lie below the highest one.
    if missing is None and rows_used(hints) < rows_used(found):
        return hints, None
    return found, None


def _align(row: int, bank: int, banks: int) -> int:
    return row + (bank - row) % banks
