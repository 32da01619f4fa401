from dataclasses import replace

import pytest

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryTiming
from tpulite.configs import BUILDS, CONFIGS
from tpulite.explore.space import Space, read_axes
from tpulite.memories import MEMORIES

_LARGE = {"array_size": 32, "requant_lanes": 32, "vector_lanes": 32}


def test_a_grid_has_each_combination_once():
    space = Space(Config(), read_axes(["array_size=4,8", "ub_rows=512..2048", "multipliers=logic"]))
    found = [tuple(values.values()) for values in space.grid()]
    assert found == [(n, rows, "logic") for n in (4, 8) for rows in (512, 1024, 2048)]


def test_how_a_machine_is_written_is_beside_it():
    written = Build(memories="block")
    space = Space(Config(), read_axes(["multipliers=logic,none", "array_size=8"]), written)
    values, wrong = space.grid()
    assert space.config(values) == space.config(wrong) == Config(array_size=8)
    assert space.build(values) == Build(memories="block", multipliers="logic")
    with pytest.raises(ValueError, match=r"^multipliers must be one of"):
        space.build(wrong)


def test_a_name_is_a_machine_and_how_it_is_written():
    space = Space(Config(), read_axes(["config=4x4,ecp5-45", "ub_rows=512"]))
    small, fitted = space.grid()
    assert space.config(small) == replace(CONFIGS["4x4"], ub_rows=512)
    assert space.build(small) == Build()
    assert space.config(fitted) == replace(CONFIGS["ecp5-45"], ub_rows=512)
    assert space.build(fitted) == BUILDS["ecp5-45"]
    with pytest.raises(ValueError, match=r"^ecp5-35: no such configuration"):
        read_axes(["config=ecp5-35"])


def test_a_sample_is_of_the_grid_and_repeatable():
    space = Space(Config(), read_axes(["array_size=4,8,16", "ub_rows=64..16384"]))
    grid = list(space.grid())
    sample = list(space.sample(7, seed=3))
    assert len(sample) == 7 and sample == [x for x in grid if x in sample]
    assert sample == list(space.sample(7, seed=3)) != list(space.sample(7, seed=4))
    assert list(space.sample(100, seed=3)) == grid


def test_the_memory_is_beside_the_machine():
    space = Space(Config(), read_axes(["dram_latency=25..100", "array_size=8"]))
    values = list(space.grid())[2]
    assert space.memory_of(values) == MemoryTiming(read_latency=100)
    assert space.config(values) == Config(array_size=8)
    assert space.memory_of({}) == REFERENCE_MEMORY
    slow = Space(Config(), (), memory=MEMORIES["sdram16"])
    assert slow.memory_of({"dram_burst": 9}) == replace(MEMORIES["sdram16"], burst_cycles=9)
    assert slow.memory_of({"memory": "ddr3", "dram_beat": 2}).beat_cycles == 2


def test_what_a_size_of_array_has_follows_it():
    assert Space(Config(), ()).config({"array_size": 8}) == Config(array_size=8)
    assert Space(CONFIGS["8x8"], ()).config({"array_size": 16}) == Config()
    without = Config(delay_lines=False)
    assert Space(without, ()).config({"array_size": 32}) == replace(without, **_LARGE)


def test_whole_lanes_follow_the_array_and_others_stay():
    assert Space(Config(), ()).config({"array_size": 8}) == Config(array_size=8)
    four = Config(requant_lanes=4, vector_lanes=4)
    few = Space(four, ()).config({"array_size": 8})
    assert (few.requant_lanes, few.vector_lanes) == (4, 4)
    with pytest.raises(ValueError, match="requant_lanes must divide"):
        Space(Config(requant_lanes=8), ()).config({"array_size": 4})


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["size=4"], "size: no such field of a configuration"),
        (["clock_gates=0,1"], "clock_gates: no such field of a configuration"),
        (["ub_rows"], "'ub_rows' must be FIELD=VALUES; fields are array_size, ub_rows"),
        (["ub_rows=64", "ub_rows=128"], "ub_rows is given twice"),
        (["ub_rows=64..128,128"], "a value is given twice"),
        (["ub_rows=128..64"], "ub_rows=128..64 is an empty range"),
        (["ub_rows=0..64"], "is an empty range"),
        (["ub_rows="], "ub_rows needs values between commas"),
        (["ub_rows=64,,128"], "ub_rows needs values between commas"),
        (["dram_latency=1"], "dram_latency must be 2 to 10,000 cycles, not 1"),
        (["dram_response=8..4"], "dram_response=8..4 is an empty range"),
        (["ub_rows=many"], "ub_rows must be an integer, not 'many'"),
    ],
)
def test_axes_that_cannot_be_read_are_refused(texts, message):
    with pytest.raises(ValueError) as error:
        read_axes(texts)
    assert message in str(error.value)
