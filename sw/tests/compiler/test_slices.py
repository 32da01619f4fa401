import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.geometry.backward import Reach, backward, backward_columns, backward_extent
from tpulite.compiler.geometry.group import Group, StepRows
from tpulite.compiler.geometry.slices import (
    can_be_pipelined,
    column_grain,
    plan_columns,
    plan_steps,
    repeated,
    step_delays,
)
from tpulite.graph.layers import (
    Activation,
    Conv,
    Depthwise,
    Elementwise,
    LayerGraph,
    Lut,
    Pool,
    Reshape,
    Softmax,
)
from tpulite.graph.requantization import IDENTITY
from tpulite_testing.drawn.plain_graphs import GraphBuilder, layer_graphs

SAME = {"padding": (1, 1, 1, 1)}


def test_slices_of_a_3x3_convolution():
    reach = Reach(Axis1D(backward_extent(1, kernel=3, stride=1), 1, before=1, size=6), 6)
    assert reach.span(0, 3) == (0, 4)
    assert reach.span(3, 6) == (2, 6)


def test_size_is_the_larger_of_window_and_stride_and_the_last_slice_ends_with_the_image():
    assert backward_extent(2, kernel=1, stride=3) == 6
    assert backward_extent(5, kernel=3, stride=1, dilation=4) == 13
    conv = Reach(Axis1D(backward_extent(1, kernel=1, stride=3), 3, size=20), 7)
    assert conv.span(0, 2) == (0, 6)
    pool = Reach(Axis1D(1, 3, size=20), 7)  # only its window counts
    assert pool.span(0, 2) == (0, 4)
    assert conv.span(6, 7) == (18, 20)
    assert Reach(Axis1D(9, 1, before=4, size=20), 20).span(5, 10) == (1, 14)


@pytest.mark.parametrize("name", ["outputs", "kernel", "stride", "dilation"])
def test_nothing_of_a_window_is_zero(name):
    given = {"outputs": 3, "kernel": 3, "stride": 1, "dilation": 1} | {name: 0}
    with pytest.raises(ValueError, match=f"^{name} must be at least 1, not 0$"):
        backward_extent(given.pop("outputs"), **given)


def test_what_reads_nothing_but_padding_still_needs_a_row():
    reach = Reach(Axis1D(2, 1, before=5, size=3), 11)
    assert reach.span(0, 2) == (0, 1)
    assert reach.span(9, 10) == (2, 3)


def residual():
    """Return x -> a (3x3) -> b (3x3), c = b + x, 40 rows."""
    builder = GraphBuilder((40, 8, 16))
    builder.conv("x", 16, name="a", **SAME)
    builder.conv("a", 16, name="b", **SAME)
    builder.add("b", "x", name="c")
    return builder.graph("c")


def test_a_residual_of_40_rows_cut_in_2_needs_20_21_and_22_rows():
    first, second = plan_steps(residual(), Group(range(3), slices=2))
    assert {name: rows.new for name, rows in first.items()} == {
        "c": range(20),
        "b": range(20),
        "a": range(21),
        "x": range(22),  # the sum reads the first 20 of them
    }
    assert {name: len(rows.new) for name, rows in second.items()} == {
        "c": 20,
        "b": 20,
        "a": 21,
        "x": 22,
    }
    assert all(rows.new == rows.live for rows in (*first.values(), *second.values()))


def test_users_of_a_tensor_share_the_union_and_the_smaller_one_reads_with_an_offset():
    layers = residual()
    _, second = plan_steps(layers, Group(range(3), slices=2))
    conv, _, add = layers.layers
    assert second["x"].live == range(18, 40) == backward(conv, range(19, 40), 0, layers.activations)
    assert backward(add, range(20, 40), 1, layers.activations) == range(20, 40)


def test_rolling_keeps_what_the_next_slice_needs():
    first, second = plan_steps(residual(), Group(range(3), slices=2, rolling=True))
    assert (first["a"].new, first["x"].new) == (range(21), range(22))
    assert (second["a"].new, second["a"].live) == (range(21, 40), range(19, 40))
    assert (second["x"].new, second["x"].live) == (range(22, 40), range(20, 40))
    assert (second["b"].new, second["b"].live) == (range(20, 40), range(20, 40))


def test_the_guard_refuses_slices_that_repeat_more_than_half():
    assert repeated([range(0, 80), range(20, 100)], 100)
    assert not repeated([range(0, 60), range(20, 100)], 100)
    assert not repeated([range(0, 75), range(25, 100)], 100)  # half exactly


def test_images_that_nobody_in_the_group_reads_come_in_proportion():
    builder = GraphBuilder((12, 4, 16))
    builder.conv("x", 16, name="side", stride=(2, 1), **SAME)
    builder.lut("x", name="main")
    steps = plan_steps(builder.graph("side", "main"), Group(range(2), slices=3))
    assert [step["side"].new for step in steps] == [range(0, 2), range(2, 4), range(4, 6)]
    assert [step["main"].new for step in steps] == [range(0, 4), range(4, 8), range(8, 12)]
    assert [step["x"].new for step in steps] == [range(0, 4), range(3, 8), range(7, 12)]


@pytest.mark.parametrize(
    ("outputs", "rows"),
    [
        (("b",), [range(0, 4), range(6, 12)]),  # the last slice ends with the image
        (("a", "b"), [range(0, 4), range(4, 12)]),
        (("b", "c"), [range(0, 4), range(4, 12)]),
    ],
)
def test_rows_that_no_layer_of_the_group_reads_are_computed_if_others_do(outputs, rows):
    builder = GraphBuilder((12, 4, 16))
    builder.lut("x", name="a")
    builder.pool("a", (1, 1), stride=(3, 1), name="b")  # reads rows 0, 3, 6 and 9
    if "c" in outputs:
        builder.lut("a", name="c")
    steps = plan_steps(builder.graph(*outputs), Group(range(2), slices=2))
    assert [step["b"].new for step in steps] == [range(0, 2), range(2, 4)]
    assert [step["a"].new for step in steps] == rows
    assert [step["x"].new for step in steps] == rows


def test_there_are_no_more_steps_than_grains():
    steps = plan_steps(residual(), Group(range(3), slices=30), grains={"c": 16})
    assert [step["c"].new for step in steps] == [range(0, 16), range(16, 32), range(32, 40)]


def test_an_operand_for_all_positions_is_always_whole():
    builder = GraphBuilder((8, 8, 16))
    builder.pool("x", (8, 8), name="mean")
    builder.add("x", "mean", name="y")
    layers = builder.graph("y")
    assert backward(layers.layers[1], range(3, 5), 1, layers.activations) == range(1)
    assert backward_columns(layers.layers[1], range(3, 5), 1, layers.activations) == range(1)
    first, second = plan_steps(layers, Group(range(2), slices=2, rolling=True))
    assert (first["x"].new, first["mean"].new) == (range(8), range(1))
    assert (second["mean"].new, second["mean"].live) == (range(1, 1), range(1))
    assert (second["x"].new, second["x"].live) == (range(8, 8), range(4, 8))


def test_images_of_one_row_make_one_step():
    builder = GraphBuilder((1, 9, 16))
    builder.conv("x", 16, **SAME)
    layers = builder.graph()
    (step,) = plan_steps(layers, Group(range(1), slices=4))
    assert step["x"].new == step["y0"].new == range(1)


def test_frames_and_joined_images_are_cut_where_possible():
    builder = GraphBuilder((4, 4, 16))
    builder.pad("x", (3, 1, 2, 1), name="frame")
    builder.concat("x", "x", axis=0, name="tall")
    builder.concat("x", "x", axis=1, name="wide")
    builder.concat("x", "x", axis=2, name="deep")
    layers = builder.graph("tall")
    frame, tall, wide, _ = layers.layers
    assert backward(frame, range(0, 2), 0, layers.activations) == range(0, 1)
    assert backward(frame, range(2, 6), 0, layers.activations) == range(0, 3)
    assert backward(frame, range(7, 9), 0, layers.activations) == range(3, 4)
    assert backward(wide, range(1, 3), 1, layers.activations) == range(1, 3)
    assert [layer.sliceable() for layer in layers.layers] == [True, False, True, True]
    assert [layer.sliceable(1) for layer in layers.layers] == [True, True, False, True]
    assert not Reshape(name="r", inputs=("x",), output="r").sliceable()
    with pytest.raises(ValueError, match=r"^Layer 'tall' cannot run slice by slice$"):
        backward(tall, range(1), 0, layers.activations)
    with pytest.raises(ValueError, match=r"^Layer 'tall' cannot run slice by slice$"):
        plan_steps(layers, Group(range(2), slices=2))


def test_a_softmax_is_a_step_behind_and_what_reads_it_another():
    table = {"table": np.zeros(256, np.int8)}
    layers = (
        Lut(name="a", inputs=("x",), output="a", **table),
        Softmax(name="b", inputs=("a",), output="b", words=np.ones(256, np.int32)),
        Lut(name="c", inputs=("x",), output="c", **table),
        Lut(name="d", inputs=("b",), output="d", **table),
        Softmax(name="e", inputs=("d",), output="e", words=np.ones(256, np.int32)),
    )
    images = dict.fromkeys("xabcde", Activation((4, 4, 16)))
    graph = LayerGraph("net", layers, images, ("x",), ("c", "e"))
    assert step_delays(graph, range(5)) == {0: 0, 1: 1, 2: 0, 3: 2, 4: 3}
    assert step_delays(graph, range(1, 3)) == {1: 0, 2: 0}


def test_the_vector_path_of_a_pipelined_group_is_a_step_from_the_array():
    layers = (
        Lut(name="table", inputs=("x",), output="table", table=np.zeros(256, np.int8)),
        depthwise("products", "x"),
        Elementwise(
            name="larger",
            inputs=("table", "products"),
            output="larger",
            op="max",
            requantization=IDENTITY,
            zero_points=(0, 0),
        ),
        depthwise("y", "larger"),
    )
    images = dict.fromkeys(("x", "table", "products", "larger", "y"), Activation((4, 4, 16)))
    graph = LayerGraph("net", layers, images, ("x",), ("y",))
    assert can_be_pipelined(graph, range(4))
    assert not can_be_pipelined(graph, range(2))
    assert step_delays(graph, range(4)) == dict.fromkeys(range(4), 0)
    assert step_delays(graph, range(4), pipelined=True) == {0: 0, 1: 0, 2: 1, 3: 2}


def depthwise(name: str, source: str) -> Depthwise:
    weight = np.ones((1, 1, 16), np.int8)
    return Depthwise(
        name=name, inputs=(source,), output=name, weight=weight, requantization=IDENTITY
    )


def test_blocks_of_pixels_are_not_cut_along_the_width():
    builder = GraphBuilder((4, 4, 16))
    builder.depth_to_space("x", (2, 2), name="wide")
    layers = builder.graph()
    assert len(plan_steps(layers, Group(range(1), slices=2))) == 2
    with pytest.raises(ValueError, match=r"^Layer 'wide' cannot run slice by slice$"):
        plan_columns(layers, Group(range(1), slices=1, columns=2))


def test_a_group_without_slices_has_no_steps():
    with pytest.raises(ValueError, match=r"^A group to be sliced must have layers and slices"):
        plan_steps(residual(), Group(range(1)))


@pytest.mark.parametrize("size", [4, 8, 16, 32])
def test_columns_begin_at_beats_of_dram(size):
    """And no fewer of them: a grain is the least number of vectors that end with a beat."""
    config = Config(array_size=size)
    ends = [n for n in range(1, 17) if n * config.row_bytes % BEAT_BYTES == 0]
    assert list(range(0, 17, column_grain(config))) == [0, *ends]


def test_columns_are_cut_like_rows():
    builder = GraphBuilder((4, 40, 16))
    builder.conv("x", 16, name="a", **SAME)
    builder.conv("a", 16, name="b", **SAME)
    first, second = plan_columns(builder.graph(), Group(range(2), slices=1, columns=2))
    # 20, 21 and 25 columns, up to multiples of 4: parts of rows begin at beats
    assert (first["b"], first["a"], first["x"]) == (range(20), range(24), range(28))
    assert (second["b"], second["a"], second["x"]) == (range(20, 40), range(16, 40), range(12, 40))


def groups(draw, layers, rolling):
    start = draw(st.integers(0, len(layers.layers) - 1))
    stop = draw(st.integers(start + 1, len(layers.layers)))
    return Group(range(start, stop), slices=draw(st.integers(1, 6)), rolling=rolling)


def really_read(layer, rows, index, images):
    if isinstance(layer, Conv | Depthwise | Pool):
        kernel = layer.window if isinstance(layer, Pool) else layer.weight.shape
        dilation = 1 if isinstance(layer, Pool) else layer.dilation[0]
        extent = images[layer.inputs[index]].shape[0]
        origins = [row * layer.stride[0] - layer.padding[0] for row in rows]
        read = [first + tap * dilation for first in origins for tap in range(kernel[0])]
        inside = [row for row in read if 0 <= row < extent]
        inside = inside or [min(max(origins[0], 0), extent - 1)]  # at least one
        return range(min(inside), max(inside) + 1)
    return backward(layer, rows, index, images)


@given(st.data(), layer_graphs(), st.booleans(), st.sampled_from([1, 1, 2, 4]))
def test_every_step_finds_what_it_reads_and_computes_every_row(data, layers, rolling, grain):
    check_steps(layers, groups(data.draw, layers, rolling), grain)


@pytest.mark.parametrize("slices", range(1, 7))
@pytest.mark.parametrize("source", ["x", "y"])
def test_rows_stay_live_for_layers_that_pause(source, slices):
    """One row of `a` is for 8 of the sum; it reads rows far above those that `b` reads then."""
    builder = GraphBuilder((24, 20, 128))
    builder.lut("x", name="y")  # has no new rows while `a` pauses
    builder.conv(source, 128, 17, name="a", stride=(8, 1), padding=(8, 8, 8, 8))
    builder.depth_to_space("a", (8, 1), name="up")
    builder.conv("x", 16, 1, name="b")
    builder.add("up", "b", name="c")
    first = 1 if source == "x" else 0
    check_steps(builder.graph("c"), Group(range(first, 5), slices=slices, rolling=True), 1)


def check_steps(layers, group, grain):
    grains, rolling = dict.fromkeys(layers.activations, grain), group.rolling
    steps = plan_steps(layers, group, grains=grains)
    members = [layers.layers[i] for i in group.layers]
    inside = {layer.output for layer in members}
    later = {name for layer in layers.layers[group.layers.stop :] for name in layer.inputs}
    for name in steps[0]:
        rows = [step[name] for step in steps]
        height = layers.activations[name].shape[0]
        start = StepRows(range(0), range(0))
        for before, now in zip([start, *rows], rows, strict=False):
            assert not now.new or now.new.start % grain == 0
            if not rolling:
                assert now.new == now.live
                assert now.new
                continue
            assert now.live.stop == now.new.stop
            assert now.live.start <= now.new.start
            assert now.new.start == before.new.stop
            kept = range(now.live.start, now.new.start)
            assert not kept or (before.live.start <= kept.start and kept.stop == before.live.stop)
        if name in inside and (rolling or name in later or name in layers.outputs):
            assert {y for each in rows for y in each.new} == set(range(height))
        assert rows[-1].new.stop == height
    for step in steps:
        for layer in members:
            made = step[layer.output].new
            for index, source in enumerate(layer.inputs) if made else ():
                need = really_read(layer, made, index, layers.activations)
                live = step[source].live
                assert live.start <= need.start
                assert need.stop <= live.stop
