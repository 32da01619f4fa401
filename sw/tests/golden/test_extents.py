"""Footprints, extents and grids against the specification and plain lists of places."""

import random
import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.effects import effects
from tpulite.arch.isa import Command, Opcode
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.golden.effects.extents import ExtentFinder
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.effects.grids import Grid, cover, expand, meet, view
from tpulite.golden.races.detector import RaceDetector
from tpulite_testing.drawn.commands import CONFIGS, WINDOWS, draw_command
from tpulite_testing.regress import REGRESS

SEED = time.time_ns() if REGRESS else 0
COMMANDS = 1_000_000 // 12 if REGRESS else 250
"""Commands of each opcode on each of the three machines."""
OPCODES = [Opcode.LOAD, Opcode.STORE, Opcode.CONV, Opcode.VECTOR]
LEVELS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=3)


def places_of(grids):
    """Return all places of some grids, those twice that are in two of them."""
    return sorted(place for each in grids for place in expand(each).tolist())


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("opcode", OPCODES)
def test_fast_forms_have_the_effects_that_are_specified(name, opcode):
    print(f"seed {SEED}")
    config, rng = CONFIGS[name], random.Random(f"{SEED} {name} {opcode}")
    finder = ExtentFinder(config, WINDOWS)
    found = 0
    for _ in range(COMMANDS):
        command = draw_command(rng, opcode, config)
        access, extents = footprint(command, config, WINDOWS), finder.find(command)
        assert (extents is None) == (access.fault is not None), command
        if extents is None:
            continue
        found += 1
        specified = effects(command, config)
        # In order.
        assert (*access.early_reads,) == specified.early, command
        assert (*access.reads,) == specified.reads, command
        assert (*access.writes,) == specified.writes, command
        assert (*access.reads_before,) == specified.reads_before, command
        base = WINDOWS[command["window"]].base if specified.lines else 0
        lines = [range(base + line.start, base + line.stop) for line in specified.lines]
        assert [range(span.start, span.stop) for span in access.spans] == lines, command
        assert access.accumulators == extents.accumulators == specified.accumulators, command
        # As sets; operands may lie in the same rows.
        assert {*places_of(extents.early_reads)} == {*specified.early}, command
        assert {*places_of(extents.reads)} == {*specified.reads}, command
        assert places_of(extents.writes) == sorted({*specified.writes}), command
        held = sorted({byte for line in lines for byte in line})
        assert places_of(extents.lines) == held, command
        assert places_of(extents.beats) == sorted({byte // BEAT_BYTES for byte in held}), command
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
