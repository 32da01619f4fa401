"""Turns in the requantizer's lanes against the pipeline, cycle by cycle."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.timing import ELEMENTWISE
from tpulite.golden.timing.vectors import last_turn, late_turns

Delays = list[tuple[int, int]]


def step_through(
    outputs: int, window: int, slices: int, busy: list[bool], delays: Delays, turns: int = 1
) -> int:
    """Return the cycle in which the last sum enters the lanes: a register for each stage."""
    cycle = row = entered = 0
    slices *= turns
    reduced, group = False, 0  # the reducer has a result, and which slice of it is next
    stages = [False] * ELEMENTWISE
    while True:
        moves = not stages[-1] or cycle >= len(busy) or not busy[cycle]
        entered += stages[-1] and moves
        if entered == outputs * slices // turns:
            return cycle
        leaves = reduced and moves and group == slices - 1
        completes = row % window == window - 1
        late = max((delay for first, delay in delays if first <= row), default=0)
        reads = row < outputs * window and cycle >= row + late
        reads &= not completes or not reduced or leaves
        if moves:
            stages = [reduced and group % turns == turns - 1, *stages[:-1]]
            group = (group + reduced) % slices
        reduced = (reduced and not leaves) or (reads and completes)
        row += reads
        cycle += 1


@st.composite
def busy_lanes(draw: st.DrawFn) -> list[bool]:
    """Draw bursts of sums of the matrix unit."""
    bursts = draw(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), max_size=8))
    return [taken for busy, free in bursts for taken in [True] * busy + [False] * free]


@given(
    st.integers(1, 40),
    st.sampled_from([1, 2, 4, 9]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2]),
    busy_lanes(),
    st.lists(st.integers(0, 60), max_size=3),
)
def test_last_turn(
    outputs: int, window: int, slices: int, turns: int, busy: list[bool], late_rows: list[int]
) -> None:
    delays = [(row, 2 * i + 2) for i, row in enumerate(sorted(late_rows))]
    lanes = np.array(busy, bool)
    mine = last_turn(outputs, window, slices * turns, lanes, delays, turns_each=turns)
    assert mine == step_through(outputs, window, slices, busy, delays, turns)


@given(st.integers(1, 60), busy_lanes())
def test_rows_of_every_cycle(outputs: int, busy: list[bool]) -> None:
    first = ELEMENTWISE + 1
    late = late_turns(outputs, np.array(busy[first:], bool), [])[-1][1]
    assert first + outputs - 1 + late == step_through(outputs, 1, 1, busy, [])
