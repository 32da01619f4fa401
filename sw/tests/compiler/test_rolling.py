import re

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode, VectorOp
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.group import Group, StepRows
from tpulite.compiler.lower.lowering import LayerContext
from tpulite.compiler.lower.slicing import RollingStore
from tpulite.compiler.lower.tile_groups import tile_groups
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.placement import place_activations
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import InDram, StoreExtents
from tpulite.program import TensorSpec
from tpulite_testing.drawn.plain_graphs import GraphBuilder

SAME = {"padding": (1, 1, 1, 1)}


def rolling(*, loaded, size=16, width=10, skew=0, window=None):
    """Return an image of 12 rows in two blocks, and what commands need to know."""
    config = Config(array_size=size)
    spec = None
    if window is not None:
        spec = TensorSpec("x", window, 0, 12 * width, 2 * size, "int8", (12, width))
    dram = InDram(() if spec is None else (spec,))
    store = Store.of("x", StoreExtents(12, width, 2), config, dram, resident=False, skew=skew)
    context = LayerContext(3, "layer", config, ConstantPool(), {}, {}, 0, 0, Options())
    return RollingStore.rolling(store, loaded=loaded), context


def copies(ops):
    """Return place, extents and pitches of what is copied, and whether anything else is done."""
    names = ("rows", "columns", "a_pitch", "out_pitch")
    return [
        (op.rows["a_row"].row, op.rows["out_row"].row, *(op.fields[name] for name in names))
        for op in ops
        if op.opcode is Opcode.VECTOR and op.fields["operation"] == VectorOp.COPY
    ]


def test_what_the_next_step_needs_again_is_copied_not_loaded():
    image, context = rolling(loaded=True, window=Window.INPUT)
    assert image.resident
    assert image.advance(StepRows(range(4), range(4)), context) == []
    view, (first,) = image.read(range(4), 3)
    assert (first.opcode, first.layer, first.fields["rows"]) == (Opcode.LOAD, 3, 40)
    old = view.buffer
    copy, load = image.advance(StepRows(range(4, 7), range(2, 7)), context)
    # Two rows of ten vectors, both blocks at once: from the third row of 4 to the first of 5.
    assert copies([copy]) == [(20, 0, 2, 20, 40, 50)]
    assert copy.rows["a_row"].buffer is old is not load.rows["row"].buffer
    assert (load.fields["offset"], load.fields["rows"], load.rows["row"].row) == (640, 30, 20)
    view, loads = image.read(range(2, 7), 3)
    assert (view.rows, loads) == (range(2, 7), [])
    assert image.open(range(4, 7)) is view


def test_rows_of_the_first_step_are_loaded_as_they_are_read():
    image, context = rolling(loaded=True, width=120, window=Window.INPUT)
    assert image.advance(StepRows(range(8), range(8)), context) == []
    loads = [image.read(range(stop), 3)[1] for stop in (1, 3, 3, 6)]
    assert [len(each) for each in loads] == [1, 2, 0, 3]
    rows = [op.fields["rows"] // 120 for each in loads for op in each]
    assert rows == [1] * 6
    rest = image.advance(StepRows(range(8, 10), range(8, 10)), context)
    assert [op.fields["rows"] // 120 for op in rest] == [1, 1, 2]


def test_rows_that_are_computed_are_not_loaded():
    image, context = rolling(loaded=False)
    assert image.advance(StepRows(range(4), range(4)), context) == []
    assert len(image.advance(StepRows(range(4, 7), range(3, 7)), context)) == 1


def test_skewed_rows_are_copied_block_by_block_without_the_gap():
    image, context = rolling(loaded=False, skew=1)
    image.advance(StepRows(range(4), range(4)), context)
    ops = image.advance(StepRows(range(4, 8), range(2, 8)), context)
    assert copies(ops) == [(22, 0, 2, 10, 11, 11), (22 + 44, 66, 2, 10, 11, 11)]


def test_rows_before_a_beat_are_loaded_again_or_stored_again():
    """Rows of six vectors of four bytes begin at beats every other time."""
    image, context = rolling(loaded=True, size=4, width=6, window=Window.INPUT)
    image.advance(StepRows(range(5), range(5)), context)
    image.read(range(5), 3)
    copy, load = image.advance(StepRows(range(5, 8), range(3, 8)), context)
    assert copies([copy]) == [(18, 0, 2, 6, 30, 30)]  # row 3 alone; row 4 comes with row 5
    assert (load.fields["offset"], load.fields["rows"], load.rows["row"].row) == (96, 24, 6)
    image, context = rolling(loaded=False, size=4, width=6, window=Window.OUTPUT)
    image.advance(StepRows(range(5), range(5)), context)
    ops = image.advance(StepRows(range(5, 8), range(5, 8)), context)
    assert copies(ops) == [(24, 0, 2, 6, 30, 24)]  # row 4, to be stored with row 5
    assert image.open(range(5, 8)).rows == range(4, 8)


def test_what_is_prepared_is_seen_when_it_is_advanced():
    image, context = rolling(loaded=True, window=Window.INPUT)
    image.advance(StepRows(range(4), range(4)), context)
    image.read(range(4), 3)
    step = StepRows(range(4, 8), range(3, 8))
    assert len(image.prepare(step, context)) == 2
    assert image.read(range(4), 3)[0].rows == range(4)
    assert image.prepare(step, context) == []
    assert image.advance(step, context) == []
    assert image.read(range(3, 8), 3)[0].rows == range(3, 8)


def test_steps_without_new_rows_change_nothing():
    image, context = rolling(loaded=True, window=Window.INPUT)
    image.advance(StepRows(range(4), range(4)), context)
    view = image.view
    assert image.advance(StepRows(range(4, 4), range(2, 4)), context) == []
    assert image.view is view


@pytest.mark.parametrize("rows", [range(1, 4), range(2, 6)])
def test_rows_that_are_gone_or_not_there_are_not_read(rows):
    image, context = rolling(loaded=False)
    image.advance(StepRows(range(5), range(5)), context)
    image.advance(StepRows(range(5, 5), range(5, 5)), context)
    image.state.view = image.strip(range(2, 5))
    with pytest.raises(AssertionError):
        image.read(rows, 3)


def tiled(layers, group, *, batch=1):
    """Return the commands of a network that is one group."""
    pool, options, config = ConstantPool(), Options(batch=batch), Config(ub_rows=2048)
    outside = frozenset(layers.activations)
    placement = place_activations(layers, (group,), config, options, pool=pool, outside=outside)
    return tile_groups(layers, (group,), placement, pool, config, options).ops


def test_copies_go_ahead_of_pooling():
    builder = GraphBuilder((16, 8, 16))
    builder.pool(builder.conv("x", 16, name="a", **SAME), (3, 3), name="b", **SAME)
    ops = tiled(builder.graph(), Group(range(2), slices=4, rolling=True))
    kinds = ""
    for op in ops:
        if op.opcode is Opcode.VECTOR:
            kinds += "c" if op.fields["operation"] == VectorOp.COPY else "w"
    # Two copies, of x and a, before the windows of each step but the last one.
    assert re.fullmatch("(ccw+){3}", kinds)


def test_every_row_is_loaded_and_stored_once_if_rolling_and_halos_again_if_not():
    builder = GraphBuilder((16, 8, 16))
    builder.conv(builder.conv("x", 16, name="a", **SAME), 16, name="b", **SAME)
    layers = builder.graph()
    for roll, loaded in ((True, 16), (False, 6 + 8 + 8 + 6)):
        ops = tiled(layers, Group(range(2), slices=4, rolling=roll))
        rows = {Opcode.LOAD: 0, Opcode.STORE: 0}
        for op in ops:
            if op.fields.get("window") in (Window.INPUT, Window.OUTPUT):
                rows[op.opcode] += op.fields["rows"] // 8
        assert rows == {Opcode.LOAD: loaded, Opcode.STORE: 16}
        assert bool(copies(ops)) is roll


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("reloaded", [frozenset(), frozenset({1})])
def test_weights_stay_for_all_slices_but_those_that_are_reloaded(reloaded, batch):
    builder = GraphBuilder((16, 8, 16))
    builder.conv(builder.conv("x", 16, 1, name="a"), 16, 1, name="b")
    ops = tiled(builder.graph(), Group(range(2), slices=4, reloaded=reloaded), batch=batch)
    loads = [op.layer for op in ops if op.fields.get("window") == Window.CONSTANTS]
    assert loads.count(0) == 2  # weights and records
    assert loads.count(1) == (8 * batch if reloaded else 2)
