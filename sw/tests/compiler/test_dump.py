import re

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode, disassemble
from tpulite.compiler.dump.places import picture
from tpulite.compiler.dump.slices import slices_text
from tpulite.compiler.dump.stages import Compilation, stage_text
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.group_costs import GroupCosts
from tpulite.compiler.group.residency import network_cost
from tpulite.compiler.ops import Buffer, Op, Region, Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.passes import PASSES
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.patches import pack_patches
from tpulite.compiler.schedule.allocate import place_buffers
from tpulite.compiler.schedule.schedule import schedule
from tpulite.models import CNN_DIGITS
from tpulite.runtime.model import Model
from tpulite_testing.drawn.plain_graphs import GraphBuilder


@pytest.fixture(scope="module")
def layers():
    (layers,) = Model.load(CNN_DIGITS).layers
    return layers


@pytest.fixture(scope="module")
def stages(layers):
    """Compile, and keep what the stages have made."""
    values = {}
    compile_layers(layers, Config(), dump=values.__setitem__)
    return values


def about(layers, schedule=None):
    return Compilation(layers, Config(), Options(), schedule)


def test_every_stage_is_shown_and_has_a_text(layers, stages):
    assert tuple(stages) == tuple(each.name for each in PASSES)
    for stage, value in stages.items():
        text = stage_text(value, about(layers, stages["schedule"]))
        assert text.endswith("\n") and len(text.splitlines()) >= 4, stage
        assert all(line == line.rstrip() for line in text.splitlines()), stage
        assert "0x7f" not in text and "object at" not in text, stage


def test_equal_compilations_give_equal_text(layers, stages):
    again = {}
    (other,) = Model.load(CNN_DIGITS).layers
    compile_layers(other, Config(), dump=again.__setitem__)
    for stage, value in stages.items():
        text = stage_text(value, about(layers, stages["schedule"]))
        assert stage_text(again[stage], about(other, again["schedule"])) == text, stage


def test_layers_have_their_shapes_and_macs(layers):
    lines = stage_text(layers, about(layers)).splitlines()
    assert lines[0] == "network cnn_digits/0: 7 layers, 397,952 MACs"
    assert lines[1].split() == ["#", "kind", "layer", "reads", "computes", "MACs"]
    words = ["0", "conv", "conv_2d_0", "image", "16x16x1", "stem", "8x8x32", "18,432", "3x3,"]
    assert lines[2].split()[:9] == words
    assert lines[5].split()[4:] == ["8x8x32,", "pointwise", "8x8x32", "add", "8x8x32", "add"]


def test_groups_have_the_rows_of_their_slices(layers):
    groups = (Group(range(5), slices=4, rolling=True), Group(range(5, 6)), Group(range(6, 7)))
    alone = tuple(Group(range(i, i + 1)) for i in range(7))
    text = stage_text(groups, about(layers))
    first, second, third, sums = text.split("\n\n")
    assert first.startswith("group 0: layers 0 to 4\n  T2 conv_2d_0, T5 depthwise_conv_2d_1, T8 c")
    assert "  slices in N: 1, H: 4; rows that slices share are kept\n" in first
    lines = [line.split() for line in first.splitlines()]
    assert ["14", "conv", "4", "0", "[0,1)", "[1,2)", "[2,3)", "..."] in lines
    assert second.startswith("group 1: layer 5\n  T15 average_pool_2d_5\n  alone: the layer tiles")
    assert re.search(r"estimate: [\d,]+ cycles, [\d,]+ bytes read, 16 written", third)

    lines = [line.rsplit(maxsplit=3) for line in sums.splitlines()]
    names, numbers = [line[0] for line in lines[1:]], [line[1:] for line in lines[1:]]
    assert names == ["in these groups", "each layer alone"]
    costs = GroupCosts(GraphTable(layers, Config(), Options()), Config().ub_rows)
    for group, found in zip((groups, alone), numbers, strict=True):
        cost = network_cost(costs, group)
        expected = (cost.cycles, cost.read * 16, cost.written * 16)
        assert found == [f"{number:,}" for number in expected]

    halos = stage_text((Group(range(5), slices=4), *groups[1:]), about(layers))
    assert "halos are recomputed" in halos
    line = next(line.split() for line in halos.splitlines() if " stem " in line)
    assert line[:3] == ["3", "stem", "8"] and int(line[3]) > 0


def residual():
    """Return conv2(x) -> 3; conv5(3) -> 6; add7(3, 6) -> 8: the document's example; x is 0."""
    builder = GraphBuilder((40, 8, 16))
    builder.conv("x", 16, name="3", padding=(1, 1, 1, 1))
    builder.conv("3", 16, name="6", padding=(1, 1, 1, 1))
    builder.add("3", "6", name="8")
    return builder.graph()


def live_table(ub_rows):
    """Compile the example as the document does; return lines of its dump as words."""
    config = Config(ub_rows=ub_rows)
    options = Options(groups="document", allocator="longest")
    values = {}
    compile_layers(residual(), config, options, dump=values.__setitem__)
    places = values["schedule"], values["allocate"]
    text = stage_text(
        values["choose-tiles"], Compilation(values["mark-views"], config, options, *places)
    )
    assert max(map(len, text.splitlines())) <= 80
    return [line.split() for line in text.splitlines()]


def test_live_ranges_are_those_of_the_document():
    lines = live_table(16384)
    assert ["not", "cut", "(N:", "1,", "H:", "1)"] in lines
    spans = {line[0]: line[4:6] for line in lines if len(line) > 8 and line[4][0] == "["}
    assert spans == {
        "0": ["[T2,T2]", "[T2,T2]"],
        "w1": ["[T2,T2]", "[T2,T2]"],
        "B2": ["[T2,T2]", "[T2,T2]"],
        "3": ["[T2,T7]", "[T2,T7]"],
        "w4": ["[T5,T5]", "[T2,T5]"],  # it is loaded while conv2 runs
        "B5": ["[T5,T5]", "[T2,T5]"],
        "B7": ["[T7,T7]", "[T2,T7]"],
        "6": ["[T5,T7]", "[T5,T7]"],
        "8": ["[T7,T7]", "[T7,T7]"],
    }


def test_sliced_groups_keep_weights_to_the_end_and_show_the_rows_that_repeat():
    lines = live_table(1024)
    assert "slices in N: 1, H: 2; halos are recomputed" in map(" ".join, lines)
    for name, again, *slices in (
        ("8", "0", "[0,20)", "[20,40)"),
        ("6", "0", "[0,20)", "[20,40)"),
        ("3", "2", "[0,21)", "[19,40)"),
        ("x", "4", "[0,22)", "[18,40)"),
    ):
        share = [] if again == "0" else [f"({int(again) / 40:.0%})"]
        assert [name.replace("x", "0"), name, "40", again, *share, *slices] in lines
    assert ["0", "a" * 18 + "####" + "b" * 18] in lines
    spans = {line[0]: line[5] for line in lines if len(line) > 8 and line[4][0] == "["}
    assert {spans[each] for each in ("w1", "w4", "B2", "B5", "B7")} == {"[T2,end]"}
    assert (spans["0"], spans["3"], spans["8"]) == ("[T5-,T2]", "[T2,T7]", "[T7,T7]")


def test_slices_that_repeat_more_than_half_are_flagged():
    builder = GraphBuilder((12, 8, 16))
    builder.conv(builder.conv("x", 16, 5, padding=(2,) * 4), 16, 5, padding=(2,) * 4, name="y")
    layers = builder.graph()
    text = slices_text(layers, Group(range(2), slices=3))
    # Of the input [0, 8), [0, 12) and [4, 12); of the other one [0, 6), [2, 10) and [6, 12).
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["6", "y", "12", "0", "[0,4)", "[4,8)", "[8,12)"],
        ["3", "y0", "12", "8", "(67%)", ">", "h/2", "[0,6)", "[2,10)", "[6,12)"],
        ["0", "x", "12", "16", "(133%)", ">", "h/2", "[0,8)", "[0,12)", "[4,12)"],
    ]


def test_folded_inputs_are_said_to_have_rows_of_patches():
    builder = GraphBuilder((64, 64, 3))
    builder.conv("x", 16, stride=(2, 2), padding=(1, 1, 1, 1), name="y")
    layers = pack_patches(builder.graph(), Config())
    patches = layers.packed["x"].patches
    assert patches is not None
    rows, columns = patches.size
    lines = slices_text(layers, Group(range(1), slices=2)).splitlines()
    note = f"  0: rows of folded patches, {rows}x{columns} of 64x64 pixels each"
    assert lines[2].split()[:3] == ["0", "x", "32"] and lines[3:] == [note]


def test_one_table_of_live_ranges_names_all_its_groups_and_breaks_names_at_words():
    layer = "a_convolution_with_a_name_that_is_long"
    builder = GraphBuilder((8, 8, 16))
    builder.conv(builder.conv("x", 16, name=layer), 16, name="y")
    values = {}
    compile_layers(builder.graph(), Config(), Options(grouping=False), dump=values.__setitem__)
    places = values["schedule"], values["allocate"]
    about = Compilation(values["mark-views"], Config(), Options(), *places)
    text = stage_text(values["choose-tiles"], about)
    *groups, lives, _ = text.split("\n\n")
    assert lives.startswith("live ranges of groups 0 to 1\n")
    assert not any(" kind " in group for group in groups)
    lines = lives.splitlines()
    (at,) = (i for i, line in enumerate(lines) if line.startswith("  w1 "))
    assert lines[at].endswith("  weights of") and lines[at + 1].lstrip().startswith("a_")
    assert "  n: buffers of a tensor; rows, bytes: of the largest; at row: of the middle" in lives
    assert max(map(len, lines)) <= 80


def test_placement_says_where_images_are(layers, stages):
    lines = stage_text(stages["place"], about(layers)).splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:9]}
    assert rows["stem"] == ["8x8x32", "yes", "128", "2,048"]
    assert rows["dense"][-2:] == ["OUTPUT", "0x0"]
    assert rows["image"][4:] == ["INPUT", "0x0,", "patches", "of", "3x3"]
    assert lines[-1] == "scratch in DRAM: 0 bytes"


def test_commands_are_disassembled(layers, stages):
    lines = stage_text(stages["encode"], about(layers)).splitlines()
    assert [line[8:] for line in lines] == [disassemble(x) for x in stages["encode"]]


def test_tilings_name_buffers_by_number(layers, stages):
    commands, buffers = stage_text(stages["tile"], about(layers)).split("\n\n")
    named = set(re.findall(r"#\d+", commands)) - {"#"}
    listed = {line.split()[0] for line in buffers.splitlines()[1:]}
    assert named == listed
    assert len(commands.splitlines()) == len(stages["tile"].ops) + 1


def vector(*buffers):
    """Return a command that touches up to two buffers."""
    rows = dict(zip(("a_row", "out_row"), map(Region, buffers), strict=False))
    return Op(Opcode.VECTOR, 0, {"rows": 1, "columns": 1}, rows)


def small_schedule():
    """Return four commands, of which the first two need a, the first three b, the last two c."""
    a, b, c = (Buffer(name, rows) for name, rows in (("a", 40), ("b", 20), ("c", 40)))
    ops = (vector(a, b), vector(a), vector(b, c), vector(c))
    return schedule(Tiling(ops, (), (), 0), Config()), (a, b, c)


def test_pictures_show_rows_over_time():
    made, (a, b, c) = small_schedule()
    *lines, axis = picture({a: 1000, b: 8, c: 1000}, made).split("\n\n")[0].splitlines()
    # 60 rows are used, 20 of them by b, which is the smallest: 11 lines of 32.
    assert len(lines) == 32 and axis == "       0command 3"
    assert [line[7:] for line in lines] == ["AABB"] * 21 + ["CCC."] * 11
    assert lines[0].split()[0] == "1039" and lines[-1].split()[0] == "8"


def test_allocations_stand_beside_the_bound(layers):
    made, _ = small_schedule()
    placed = place_buffers(made, Config(), "longest")
    text = stage_text(placed, about(layers, made))
    assert text.startswith("60 of 16,384 rows used, at least 60 are needed (1.00 times)\n\n")
    table = [line.split() for line in text.splitlines()[-4:]]
    assert table[0] == ["rows", "from", "to", "what"]
    places = {name: range(*map(int, rows.split(":"))) for rows, _, _, name in table[1:]}
    assert {name: len(rows) for name, rows in places.items()} == {"a": 40, "b": 20, "c": 40}
    assert not set(places["b"]) & (set(places["a"]) | set(places["c"]))
    without = stage_text(placed, about(layers))
    assert without.splitlines()[0] == text.splitlines()[0]
    assert len(without) < len(text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "^No stage of the compiler makes a str$"),
        (("text", 1), "^No stage of the compiler makes a tuple of int, str$"),
    ],
)
def test_other_things_are_refused(layers, value, message):
    with pytest.raises(TypeError, match=message):
        stage_text(value, about(layers))
