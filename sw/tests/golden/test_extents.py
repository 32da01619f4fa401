"""Extents and grids against footprints and plain lists of places."""

import random
from functools import partial

import numpy as np
import pytest
from drawn_commands import CONFIGS, WINDOWS, draw_command
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Command, Opcode
from tpulite.compiler.encoding.tokens import insert_tokens
from tpulite.golden.extents import ExtentFinder
from tpulite.golden.footprint import footprint
from tpulite.golden.grids import Grid, cover, meet, view
from tpulite.golden.races import RaceDetector

COMMANDS = 400
OPCODES = [Opcode.LOAD, Opcode.STORE, Opcode.CONV, Opcode.VECTOR]
LEVELS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=3)


def places_of(grids):
    """Return all places of some grids, those twice that are in two of them."""
    size = max((start + grid.extent for start, grid in grids), default=0)
    return sorted(place for each in grids for place in view(np.arange(size), each).ravel().tolist())


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("opcode", OPCODES)
def test_extents_are_those_of_the_footprint(name, opcode):
    config, rng = CONFIGS[name], random.Random(f"{name} {opcode}")
    finder = ExtentFinder(config, WINDOWS)
    found = 0
    for _ in range(COMMANDS):
        command = draw_command(rng, opcode, config)
        access, extents = footprint(command, config, WINDOWS), finder.find(command)
        if extents is None:
            beats = {beat for span in access.spans for beat in span.beats}
            shared = len(beats) < sum(len(span.beats) for span in access.spans)
            assert access.fault is not None or shared, command
            continue
        found += 1
        assert access.fault is None, command
        early, reads, writes = extents.early_reads, extents.reads, extents.writes
        # Operands may lie in the same rows.
        assert np.unique(places_of(early)).tolist() == np.unique(access.early_reads).tolist()
        assert np.unique(places_of(reads)).tolist() == np.unique(access.reads).tolist()
        assert places_of(writes) == np.unique(access.writes).tolist()
        assert extents.accumulators == access.accumulators
        lines = [] if extents.lines is None else places_of([extents.lines])
        assert lines == sorted(i for span in access.spans for i in range(span.start, span.stop))
        beats = [] if extents.beats is None else places_of([extents.beats])
        assert beats == sorted({place // BEAT_BYTES for place in lines})
    assert found > COMMANDS // 2


@pytest.mark.parametrize("seed", range(8))
def test_a_quick_look_finds_what_a_close_one_finds(seed):
    rng, config = random.Random(seed), CONFIGS["4x4"]
    written = np.random.default_rng(seed).random(config.ub_rows) < 0.999
    quick, close = (
        RaceDetector(
            config,
            buffer_written=written,
            dram_written=np.ones(WINDOWS[-1].base + WINDOWS[-1].size, bool),
            program=range(WINDOWS[0].base, WINDOWS[0].base + 4096),
        )
        for _ in range(2)
    )
    finder, passed = ExtentFinder(config, WINDOWS), 0
    commands = [draw_command(rng, rng.choice(OPCODES), config) for _ in range(200)]
    legal = tuple(command for command in commands if finder.find(command) is not None)
    ordered = insert_tokens((*legal, Command.make(Opcode.END)), config)
    for command in (*ordered[:-1], *(c for c in commands if finder.find(c) is None)):
        if rng.random() < 0.05:
            command = command.replace(wait=rng.getrandbits(4))
        look = partial(footprint, command, config, WINDOWS)
        close.command(command, look())
        before = len(quick.violations)
        if (extents := finder.find(command)) is None:
            quick.command(command, look())
        else:
            quick.follow(command, extents, look)
            passed += len(quick.violations) == before
        assert quick.violations == close.violations
    assert passed > 50
    assert len(quick.violations) > 20
    assert (quick.buffer_written == close.buffer_written).all()


@given(st.sets(st.integers(0, 60)))
def test_grids_cover_every_place_once(places):
    assert places_of(cover(np.array([*places], np.int64))) == sorted(places)


@given(st.integers(0, 9), st.integers(1, 3), LEVELS)
def test_places_in_a_regular_order_are_one_grid(start, size, drawn):
    levels, extent = [], size
    for count, gap in drawn:  # from the innermost outwards
        levels.insert(0, (count, extent + 1 + gap))
        extent = Grid.of(size, *levels).extent
    grid = Grid.of(size, *levels)
    places = np.array(places_of([(start, grid)]))
    assert (
        len(set(places)) == len(places) == size * np.prod([count for count, _ in levels], dtype=int)
    )
    assert places[0] == start
    assert places[-1] == start + grid.extent - 1
    found = cover(np.random.default_rng(start).permutation(places))
    assert places_of(found) == places.tolist()
    assert len(found) <= 4


@given(st.integers(0, 30), st.integers(1, 9), st.integers(0, 30), st.integers(1, 9))
def test_grids_meet_where_their_extents_do(a, a_size, b, b_size):
    common = range(max(a, b), min(a + a_size, b + b_size))
    assert meet((a, Grid.of(a_size)), (b, Grid.of(b_size))) == bool(common)


def test_what_is_written_through_a_view_is_in_the_array():
    array = np.zeros((2, 40), np.int32)
    view(array, (5, Grid.of(2, (2, 12), (3, 4))))[...] = 7
    expected = [5, 6, 9, 10, 13, 14, 17, 18, 21, 22, 25, 26]
    for row in array:
        assert np.flatnonzero(row).tolist() == expected
