from dataclasses import replace

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.ops import Buffer, Op, Region, Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.searches import tightened
from tpulite.compiler.stages import place
from tpulite.compiler.state import Limits, State
from tpulite_testing.drawn.plain_graphs import GraphBuilder

CONFIG = Config(ub_rows=1024)
ALONE = (Group(range(1)), Group(range(1, 2)))
SLICED = (Group(range(2), slices=2),)


def layers():
    """Return x -> a, wider than x, -> b."""
    builder = GraphBuilder((8, 8, 16))
    builder.conv(builder.conv("x", 32, 1, name="a"), 16, 1, name="b")
    return builder.graph()


def after(limits, name, *, layer=0, groups=ALONE, network=None):
    """Return what follows from a buffer of a layer that finds no place."""
    buffer = Buffer(name, 64)
    shortage = Shortage(buffer, free=9, largest=9, row_bytes=16, allocator="online")
    network = network or layers()
    state = State.of(network, CONFIG, Options()).choose(limits=limits, groups=groups)
    ops = (Op(Opcode.VECTOR, layer, {}, {"out_row": Region(buffer)}),)
    tiling = Tiling(ops, (), (), 0)
    return tightened(replace(place(state), tiling=tiling, shortage=shortage))


def test_an_image_that_finds_no_place_leaves_the_buffer():
    assert after(Limits(), "a") == Limits(outside=frozenset("a"))
    assert after(Limits(outside=frozenset("a")), "x").outside == {"a", "x"}


def test_a_group_that_finds_no_place_is_refused():
    assert after(Limits(), "a, rows 0 to 3", groups=SLICED) == Limits(refused=frozenset(SLICED))


def test_the_largest_image_beside_a_layer_leaves_the_buffer():
    limits = after(Limits(), "x, rows 0 to 3", layer=1)
    assert limits == Limits(outside=frozenset("a"))  # of 128 rows; b has 64


def test_the_end_names_the_layer_and_what_is_missing():
    limits = after(Limits(outside=frozenset("xab")), "weights of a")
    assert limits.part_by_part  # then in vain
    message = (
        r"^Network 'random' does not fit the unified buffer of 1024 rows \(16384 bytes\), even cut "
        r"into slices: layer 'a': 'weights of a' needs 64 rows \(1024 bytes\), but when it is "
        r"needed 9 rows are free, at most 9 of them together \(allocator 'online'\)$"
    )
    with pytest.raises(ValueError, match=message):
        after(limits, "weights of a")


def test_kernels_wider_than_the_buffer_are_refused_at_once():
    builder = GraphBuilder((3, 4000, 16))
    builder.conv("x", 16, 3, dilation=(1, 999), padding=(1, 999, 1, 999))
    with pytest.raises(ValueError, match=r"even its smallest tile needs 2021 rows \(32336 bytes\)"):
        compile_layers(builder.graph(), CONFIG, Options())
