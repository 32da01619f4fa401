"""Buffers get rows that other engines are done with."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler import spread_choice
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.compiler.options import Options
from tpulite.compiler.schedule.fit import verify_places
from tpulite.compiler.schedule.scheduled import Schedule, find_lifetimes
from tpulite.compiler.schedule.spread import Moment, spread_buffers
from tpulite.golden.timing import program_cycles
from tpulite.program import Program
from tpulite.runtime.model import Model
from tpulite_testing.compiling.rectangles import (
    NETWORKS,
    collide,
    lifetimes,
    network_schedule,
    schedule_of,
)
from tpulite_testing.graphs.transformer import EncoderBlock

ROWS = 64
CONFIG = Config(ub_rows=ROWS)

NAMES = (("put-vectors-early",), ("put-vectors-early", "spread-buffers"))
"""Passes to leave out: none, or this one."""


def alternating(rows: int, count: int = 6) -> tuple[Schedule, list[Moment]]:
    """Return products that a VECTOR each reads, which takes as long, and when they would run."""
    ops, moments = [], []
    for number in range(count):
        buffer = Buffer(f"scores {number}", rows, bank=0)
        ops.append(Op(Opcode.CONV, 0, {}, {"out_row": Region(buffer)}))
        ops.append(Op(Opcode.VECTOR, 1, {}, {"a_row": Region(buffer)}))
        start = 100 * number
        moments += [Moment(start, 100, start + 100), Moment(start + 100, 100, start + 200)]
    return Schedule(tuple(ops), find_lifetimes(ops), {}, {}, 0, 0), moments


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize(("rows", "places"), [(ROWS // 2, 2), (ROWS, 1)])
def test_what_two_engines_use_in_turn_gets_two_places_if_there_is_room(rows, places, patient):
    schedule, moments = alternating(rows)
    found = spread_buffers(schedule, moments, CONFIG, patient=patient)
    assert found is not None
    starts = [found[each.buffer] for each in schedule.lifetimes]
    assert len(set(starts)) == places
    assert starts[:-places] == starts[places:]


@given(lifetimes(), st.lists(st.integers(0, 100), min_size=64, max_size=64), st.booleans())
def test_places_of_buffers_that_live_together_never_overlap(spans, ready, patient):
    schedule, config = schedule_of(spans), Config(ub_rows=256)
    moments = [Moment(start, 10, start + 10) for start in ready[: len(schedule.ops)]]
    found = spread_buffers(schedule, moments, config, patient=patient)
    if found is None:
        assert schedule.bound > config.ub_rows // 2
        return
    assert not collide(spans, found)
    assert not verify_places(schedule, found, config)


def test_there_are_no_places_for_more_than_the_buffer():
    schedule, moments = alternating(ROWS + 8)
    assert spread_buffers(schedule, moments, CONFIG, patient=False) is None


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_nearly_fill_the_buffer_find_places(name):
    schedule, config = network_schedule(name), NETWORKS[name]
    moments = [Moment(10 * i, 10, 10 * i + 10) for i in range(len(schedule.ops))]
    for patient in (False, True):
        found = spread_buffers(schedule, moments, config, patient=patient)
        assert found is not None
        assert not verify_places(schedule, found, config)


def programs_of(path: Path, *without: str) -> tuple[Program, ...]:
    return Model.load(path, options=Options(without=without)).compile().programs


def block(folder: Path, seed: int) -> Path:
    path = folder / "block.tflite"
    path.write_bytes(EncoderBlock(128, 64, 4, seed).build())
    return path


def test_scores_of_a_head_do_not_wait_for_the_softmax_of_the_head_before(tmp_path):
    file = block(tmp_path, 1)
    now, before = (sum(map(program_cycles, programs_of(file, *without))) for without in NAMES)
    assert now < 0.99 * before


def test_a_program_of_many_commands_keeps_its_rows(tmp_path, monkeypatch):
    file = block(tmp_path, 2)  # programs of a file are kept
    monkeypatch.setattr(spread_choice, "_MOST", 10)
    now, before = ([each.encode() for each in programs_of(file, *without)] for without in NAMES)
    assert now == before
