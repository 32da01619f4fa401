import json
from dataclasses import fields, replace

import pytest

from tpulite.arch.config import Config
from tpulite.configs import CONFIGS


def test_defaults_are_the_full_machine():
    config = Config()
    assert (config.array_size, config.ub_bytes, config.acc_rows) == (16, 256 * 1024, 1024)
    assert config.lanes == 16
    assert config.roundings == ("tflite", "ruy", "single", "float32", "away")


@pytest.mark.parametrize(("size", "full", "short"), [(4, 16, 8), (8, 16, 6), (32, 16, 5)])
def test_records_fill_whole_rows(size, full, short):
    config = Config(array_size=size)
    assert (config.record_rows, config.short_record_rows) == (full, short)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"array_size": 12}, "array_size must be one of (4, 8, 16, 32), not 12"),
        ({"ub_rows": 1000}, "ub_rows must be a power of two from 64 to 16384, not 1000"),
        ({"ub_rows": 32768}, "ub_rows must be a power of two from 64 to 16384, not 32768"),
        ({"ub_banks": 2}, "ub_banks must be a power of two from 4 to 32, not 2"),
        ({"acc_rows": 2048}, "acc_rows must be a power of two from 16 to 1024, not 2048"),
        ({"queue_depth": 3}, "queue_depth must be a power of two from 1 to 64, not 3"),
        ({"burst_beats": 512}, "burst_beats must be a power of two from 2 to 256, not 512"),
        ({"dma_bursts": 0}, "dma_bursts must be a power of two from 1 to 32, not 0"),
        ({"dma_bursts": 2.0}, "dma_bursts must be a power of two from 1 to 32, not 2.0"),
        ({"requant_lanes": 3}, "requant_lanes must divide array_size 16, not 3"),
        ({"requant_lanes": 32}, "requant_lanes must divide array_size 16, not 32"),
        ({"softmax": 2}, "softmax must be 0 or 1, not 2"),
        ({"axi_slices": 2}, "axi_slices must be 0 or 1, not 2"),
        ({"ram_registers": "x"}, "ram_registers must be 0 or 1, not 'x'"),
        ({"delay_lines": 3}, "delay_lines must be 0 or 1, not 3"),
        (
            {"delay_lines": 1, "array_size": 8},
            "array_size must be 16 or more with delay_lines, not 8",
        ),
    ],
)
def test_refuses_a_wrong_value(values, text):
    with pytest.raises(ValueError, match="must") as caught:
        Config(**values)
    assert str(caught.value) == text


@pytest.mark.parametrize("roundings", [(), ("ruy", "up")])
def test_refuses_unknown_roundings(roundings):
    with pytest.raises(ValueError, match=r"^roundings must be some of \['tflite', 'ruy', "):
        Config(roundings=roundings)


def test_roundings_have_one_order():
    first, second = Config(roundings=("float32", "ruy")), Config(roundings=("ruy", "float32"))
    assert first == second
    assert first.hash == second.hash


def test_what_machines_once_lacked_leaves_the_hash():
    without = Config(softmax=False, delay_lines=False, transposed_tiles=False)
    lacked = {"axi_slices", "ram_registers", "softmax", "delay_lines", "vector_pairs", "wide_lines"}
    lacked |= {"int16", "transposed_tiles", "int4"}
    assert not lacked & without.as_dict().keys()
    assert without.hash == 0x1FE76F43
    assert Config.from_dict(without.as_dict()) == without


@pytest.mark.parametrize(
    ("values", "words"),
    [({}, 4), ({"array_size": 8, "vector_lanes": 4, "softmax": 1}, 1), ({"array_size": 32}, 8)],
)
def test_four_lanes_look_up_a_word(values, words):
    assert Config(**values).softmax
    assert Config(**values).word_lanes == words


@pytest.mark.parametrize(
    "values",
    [{"array_size": 8}, {"array_size": 4, "softmax": 1}, {"vector_lanes": 2}, {"softmax": 0}],
)
def test_small_machines_have_no_softmax(values):
    assert Config(**values).softmax is False


@pytest.mark.parametrize(("size", "room"), [(4, False), (8, False), (16, True), (32, True)])
def test_arrays_with_a_row_for_each_tap_have_delay_lines(size, room):
    assert Config(array_size=size).delay_lines is room
    assert Config(array_size=size, delay_lines=False).delay_lines is False


@pytest.mark.parametrize(("size", "has"), [(4, False), (8, False), (16, True), (32, True)])
def test_large_arrays_have_transposed_tiles(size, has):
    assert Config(array_size=size).transposed_tiles is has
    assert Config(array_size=size, transposed_tiles=not has).transposed_tiles is not has


def test_survives_json():
    config = Config(array_size=8, requant_lanes=2, roundings=("single",))
    others = (
        replace(config, axi_slices=1, ram_registers=1, int4=1),
        Config(),
        Config(delay_lines=False),
    )
    for one in (config, *others):
        assert Config.from_dict(json.loads(json.dumps(one.as_dict()))) == one


def test_reads_what_files_of_the_first_release_say():
    """Of how a chip is written, which files need not know any more, and of what delay lines had."""
    old = {
        "array_size": 16, "ub_rows": 4096, "ub_banks": 4, "acc_rows": 1024, "queue_depth": 1,
        "burst_beats": 16, "dma_bursts": 8, "requant_lanes": 2, "vector_lanes": 16,
        "roundings": ["tflite"], "multipliers": "mixed", "memories": "block",
        "clock_gates": True, "softmax": True, "delay_lines": False,
    }  # fmt: skip
    machine = {"ub_rows": 4096, "ub_banks": 4, "queue_depth": 1, "requant_lanes": 2}
    lacked = {"delay_lines": False, "transposed_tiles": False}
    plain = Config(roundings=("tflite",), **lacked, **machine)
    assert Config.from_dict(old) == plain
    old |= {"delay_lines": True, "vector_pairs": True}
    with pytest.raises(ValueError, match=r"without kernels of 3x5.*: tpulite compile NETWORK$"):
        Config.from_dict(old)
    del old["vector_pairs"]
    with pytest.raises(ValueError, match=r"without pairs of vectors.*: tpulite compile NETWORK$"):
        Config.from_dict(old)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("4x4", 0xBAF4176E),
        ("8x8", 0x54F7ED03),
        ("ecp5-25", 0xC33B176D),
        ("ecp5-45", 0x59FB2961),
        ("ecp5-85", 0x02B73E79),
    ],
)
def test_hashes_are_those_of_the_first_release(name, shown):
    """Chips of 0.1.0 without delay lines run programs of today, and the other way round."""
    assert not CONFIGS[name].has_delay_lines
    assert CONFIGS[name].hash == shown


@pytest.mark.parametrize(("name", "once"), [("16x16", 0x763C11DD), ("32x32", 0x1E339D66)])
def test_lines_of_five_taps_change_the_hash(name, once):
    """A program of a machine without them may hold tiles that lie elsewhere with them."""
    assert CONFIGS[name].has_delay_lines
    assert CONFIGS[name].hash != once


def test_every_field_changes_the_hash():
    changes = {
        "array_size": 8, "ub_rows": 64, "ub_banks": 4, "acc_rows": 16, "queue_depth": 2,
        "burst_beats": 2, "dma_bursts": 1, "requant_lanes": 1, "vector_lanes": 1,
        "roundings": ("ruy",), "softmax": False, "axi_slices": True, "ram_registers": True,
        "delay_lines": False, "int16": True, "transposed_tiles": False,
        "int4": True,
    }  # fmt: skip
    assert changes.keys() == {field.name for field in fields(Config)}
    hashes = {Config(**{name: value}).hash for name, value in changes.items()} | {Config().hash}
    assert len(hashes) == len(changes) + 1
    assert all(0 <= value < 1 << 32 for value in hashes)
