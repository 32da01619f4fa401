import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.lower.tile_groups import tile_groups
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.placement import place_activations
from tpulite.graph.layers import Activation, LayerGraph, Reshape
from tpulite.runtime.session import Session
from tpulite_testing.drawn.plain_graphs import GraphBuilder
from tpulite_testing.kept import kept_program

SAME = {"padding": (1, 1, 1, 1)}


def place(layers, *, groups=None, config=Config(), options=Options(), outside=()):  # noqa: B008
    groups = groups or tuple(Group(range(i, i + 1)) for i in range(len(layers.layers)))
    pool = ConstantPool()
    return place_activations(
        layers, groups, config, options, pool=pool, outside=frozenset(outside)
    ), groups


def chain(shape=(8, 16, 16)):
    """Return x -> a (conv) -> b (table) -> c (depthwise)."""
    builder = GraphBuilder(shape)
    builder.conv("x", 16, name="a", **SAME)
    builder.lut("a", name="b")
    builder.depthwise("b", name="c", **SAME)
    return builder


def dram(placement, name):
    """Return where an image is in DRAM."""
    spec = placement.stores[name].spec
    assert spec is not None
    return spec


def over(placement, name):
    """Return the image whose place an image may take."""
    buffers = {
        store.open(range(1)).buffer: other
        for other, store in placement.stores.items()
        if store.resident
    }
    return buffers.get(placement.stores[name].open(range(1)).buffer.over)


def test_tables_and_sums_may_be_made_in_the_place_of_their_input():
    builder = chain()
    placement, _ = place(builder.graph())
    assert [over(placement, name) for name in "xabc"] == [None, None, "a", None]
    assert over(place(builder.graph("c", "a"))[0], "b") is None  # the host needs a
    builder.lut("a", name="later")
    assert over(place(builder.graph("c", "later"))[0], "b") is None


def test_in_place_counts_once():
    builder = GraphBuilder((8, 8, 16))
    builder.lut(builder.conv("x", 16, 1, name="a"), name="b")
    placement, _ = place(builder.graph())
    assert placement.free_rows == (16384 - 128, 16384 - 64)
    assert placement.live == (frozenset("xa"), frozenset("ab"))


def test_strips_in_a_group_are_made_in_the_place_of_strips():
    layers = GraphBuilder((8, 8, 16))
    layers.conv("x", 16, 1, name="a")
    layers.conv("a", 16, 1, name="b")
    layers.add("b", "x", name="c")
    graph = layers.graph()
    placement, groups = place(graph, groups=(Group(range(3), slices=2),), outside="xabc")
    pool = ConstantPool()
    tiling = tile_groups(graph, groups, placement, pool, Config(), Options())
    made = {
        buffer.name: buffer.over and buffer.over.name
        for op in tiling.ops
        for buffer in [region.buffer for region in op.rows.values()]
        if ", rows" in buffer.name
    }
    assert made["c, rows 0 to 3"] == "b, rows 0 to 3"
    assert made["c, rows 4 to 7"] == "b, rows 4 to 7"
    assert all(other is None for name, other in made.items() if name[0] != "c")


@pytest.mark.parametrize(("width", "banks", "pitch"), [(16, 8, 17), (15, 8, 15), (16, 32, 16)])
def test_rows_of_which_columns_are_streamed_lie_in_different_banks(width, banks, pitch):
    builder = GraphBuilder((8, width, 16))
    builder.depthwise(builder.depthwise("x", name="a", **SAME), name="b", **SAME)
    for outside in ("", "xab"):
        placement, _ = place(builder.graph(), config=Config(ub_banks=banks), outside=outside)
        pitches = [placement.stores[name].open(range(1)).pitch for name in "xab"]
        assert pitches == [pitch, pitch, width]


def test_rows_that_others_read_or_make_too_are_not_skewed():
    builder = chain()  # a table makes what the depthwise convolution reads
    builder.depthwise("x", name="d", **SAME)
    builder.conv("d", 16, name="e")
    placement, _ = place(builder.graph("c", "e"))  # and x is read by a convolution, too
    assert [placement.stores[n].open(range(1)).pitch for n in "xbd"] == [16, 16, 16]


def test_the_largest_image_goes_where_there_are_too_many():
    builder = GraphBuilder((8, 8, 16))
    builder.conv(builder.conv("x", 48, 1, name="a"), 16, 1, name="b")
    stay = {n for n, s in place(builder.graph())[0].stores.items() if s.resident}
    assert stay == {"x", "a", "b"}
    placement, _ = place(builder.graph(), config=Config(ub_rows=256))
    assert {n for n, s in placement.stores.items() if s.resident} == {"x", "b"}
    assert dram(placement, "a").window is Window.SCRATCH
    assert placement.scratch_bytes == 3 * 64 * 16


def test_images_between_layers_of_a_group_are_nowhere():
    builder = GraphBuilder((8, 8, 16))
    builder.conv(builder.conv("x", 48, 1, name="a"), 16, 1, name="b")
    placement, _ = place(builder.graph(), groups=(Group(range(2), slices=2),))
    assert not placement.stores["a"].resident and placement.stores["a"].spec is None
    placement, _ = place(builder.graph("b", "a"), groups=(Group(range(2), slices=2),))
    assert dram(placement, "a").window is Window.OUTPUT


def reshaped(shape, other):
    """Return x -> r, in another shape."""
    layer = Reshape(name="r", inputs=("x",), output="r")
    plain = GraphBuilder(shape).activations | {"r": Activation(other)}
    return LayerGraph("net", (layer,), plain, ("x",), ("r",))


def test_another_shape_of_an_image_is_both_here_or_in_dram():
    builder = GraphBuilder((8, 4, 16))
    builder.lut("x", name="a")
    layer = Reshape(name="r", inputs=("a",), output="r")
    images = builder.activations | {"r": Activation((4, 8, 16)), "b": Activation((4, 8, 16))}
    last = GraphBuilder((4, 8, 16))
    last.activations["r"] = Activation((4, 8, 16))
    last.lut("r", name="b")
    layers = (*builder.layers, layer, *last.layers)
    graph = LayerGraph("net", layers, images, ("x",), ("b",))
    for outside in ("", "a", "r"):
        placement, _ = place(graph, outside=outside)
        stay = [placement.stores[name].resident for name in "ar"]
        assert stay == [not outside] * 2
    spec, same = (dram(placement, name) for name in "ar")
    assert (spec.offset, spec.window) == (same.offset, same.window)


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize(
    ("shape", "other"),
    [
        ((8, 8, 2), (4, 8, 4)),
        ((16, 3, 6), (3, 48, 2)),  # heads of a token
        ((3, 16, 2), (2, 8, 6)),  # and back
        ((5, 9, 4), (6, 5, 6)),  # a pixel gives no whole pixels
        ((4, 7, 15), (20, 7, 3)),
    ],
)
def test_a_reshape_of_vectors_needs_few_rows(size, shape, other):
    """The third extent is in vectors."""
    config = Config(array_size=size, ub_rows=1024 // size)
    graph = reshaped((*shape[:2], shape[2] * size), (*other[:2], other[2] * size))
    rng = np.random.default_rng(sum(shape))
    for batch in (1, 2):
        program = kept_program(graph, config, Options(batch=batch))
        x = rng.integers(-128, 128, (batch, *graph.activations["x"].shape)).astype(np.int8)
        x = x if batch > 1 else x[0]
        got = Session(program).run({"x": x}).outputs["r"]
        np.testing.assert_array_equal(got.ravel(), x.ravel())


def test_elements_of_a_vector_do_not_part():
    message = r"^Layer 'r': Channels \[24, 48\] must be multiples of 16 to be reshaped$"
    with pytest.raises(ValueError, match=message):
        kept_program(reshaped((8, 8, 24), (4, 8, 48)), Config())


@pytest.mark.parametrize("order", [1, -1])
def test_a_reshaped_input_is_loaded_once(order):
    builder = GraphBuilder((8, 4, 16))
    builder.lut("x", name="a")
    layers = (Reshape(name="r", inputs=("x",), output="r"), *builder.layers)[::order]
    images = builder.activations | {"r": Activation((4, 8, 16))}
    program = kept_program(LayerGraph("net", layers, images, ("x",), ("r", "a")), Config())
    loads = [c for c in program.commands if c.fields.get("window") == Window.INPUT]
    assert [c.opcode for c in loads] == [Opcode.LOAD]
    assert [c["lines"] * c["rows"] for c in loads] == [32]


def test_constants_are_in_dram_once_and_given():
    values = np.arange(8 * 4 * 16).reshape(8, 4, 16).astype(np.int8)
    builder = GraphBuilder((8, 4, 16))
    builder.activations["k"] = Activation((8, 4, 16))
    builder.add("x", "k", name="y")
    graph = LayerGraph(
        "net", tuple(builder.layers), builder.activations, ("x",), ("y",), {"k": values}
    )
    placement, _ = place(graph, options=Options(batch=3))
    assert dram(placement, "k").window is Window.CONSTANTS
    assert [placement.stores[name].batch for name in "xky"] == [3, 1, 3]
    assert placement.inputs[0].batch == placement.outputs[0].batch == 3


def test_placements_do_not_change_while_they_are_tiled():
    graph = chain().graph()
    placement, groups = place(graph)
    counts = [
        len(tile_groups(graph, groups, placement, ConstantPool(), Config(), Options()).ops)
        for _ in range(2)
    ]
    assert counts[0] == counts[1]
