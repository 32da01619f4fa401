import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.ops import Side
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import InDram, StoreExtents
from tpulite.program import TensorSpec

CONFIG = Config()
HEIGHT, WIDTH, BLOCKS = 8, 10, 2
ROW, BLOCK = WIDTH * 16, HEIGHT * WIDTH * 16
"""Bytes of a row of a block, and of a block."""


def store(
    *,
    resident=False,
    batch=1,
    dtype="int8",
    window=Window.INPUT,
    offset=0,
    given=False,
    copies=(),
    line=None,
    skew=0,
    over=None,
):
    extents = StoreExtents(HEIGHT, WIDTH, BLOCKS, batch=batch)
    lines = HEIGHT * WIDTH
    image = (HEIGHT, WIDTH)
    spec = TensorSpec("x", window, offset, lines, 32, dtype, image, batch=batch)
    dram = InDram((spec, *copies), given, line)
    return Store.of("x", extents, CONFIG, dram, resident=resident, over=over, skew=skew)


def moved(op):
    """Return the opcode, first byte, lines, rows, stride, pitch, and row of the buffer."""
    values = (op.fields[name] for name in ("offset", "lines", "rows", "stride", "pitch"))
    return op.opcode.name, *values, op.rows["row"].row


def test_strips_are_loaded_block_by_block_and_each_time_again():
    image = store(offset=64)
    for _ in range(2):
        view, (load,) = image.read(range(-1, 3), 7)
        assert (view.rows, view.pitch, view.block_pitch) == (range(3), 10, 30)
        assert moved(load) == ("LOAD", 64, 2, 30, BLOCK, 30, 0)
        assert load.layer == 7 and not load.barrier and load.fields["flip"] == 0
        assert view.buffer.side is Side.TOP and view.buffer.rows == 60
    assert moved(image.read(range(5, 99), 7)[1][0])[1] == 64 + 5 * ROW


def test_what_comes_from_scratch_waits_for_stores():
    image = store(window=Window.SCRATCH)
    assert image.read(range(2), 0)[1][0].barrier
    (op,) = image.store(image.open(range(2)), range(2), 0)
    assert (op.opcode, op.barrier) == (Opcode.STORE, False)


def test_given_images_that_stay_are_loaded_once_as_far_as_they_are_read():
    image = store(resident=True, given=True)
    assert not image.stored and image.store(image.open(range(8)), range(8), 0) == []
    assert moved(image.read(range(3), 0)[1][0]) == ("LOAD", 0, 2, 30, BLOCK, 80, 0)
    assert image.read(range(1, 3), 0)[1] == []
    assert moved(image.part().read(range(2, 8), 0)[1][0]) == ("LOAD", 3 * ROW, 2, 50, BLOCK, 80, 30)
    assert image.read(range(8), 0)[1] == []  # what a part has loaded is there for all


def test_a_whole_image_is_one_line():
    image = store(resident=True, given=True)
    assert moved(image.read(range(8), 0)[1][0]) == ("LOAD", 0, 1, 160, 0, 0, 0)


def test_images_of_a_batch_lie_below_each_other_block_by_block():
    image = store(resident=True, given=True, batch=3)
    second = image.part(1)
    view, (load,) = second.read(range(8), 0)
    assert (view.row, view.pitch, view.block_pitch) == (80, 10, 240)
    assert moved(load) == ("LOAD", 2 * BLOCK, 2, 80, BLOCK, 240, 80)
    assert image.part(0).read(range(8), 0)[1] != []
    assert image.part(1).read(range(8), 0)[1] == []
    tall = image.tall()
    view, loads = tall.read(range(24), 0)
    assert (tall.height, view.block_pitch, view.row, loads) == (24, 240, 0, [])
    assert view.buffer is second.open(range(8)).buffer
    assert tall.store(view, range(24), 0) == []


def test_columns_are_transferred_row_by_row():
    part = store(window=Window.SCRATCH).part(columns=range(4, 8))
    view, loads = part.read(range(2, 5), 0)
    assert (part.column, part.width, view.pitch, view.block_pitch) == (4, 4, 4, 12)
    first = 2 * ROW + 4 * 16
    assert [moved(op) for op in loads] == [
        ("LOAD", first, 3, 4, ROW, 4, 0),
        ("LOAD", first + BLOCK, 3, 4, ROW, 4, 12),
    ]
    (one, _) = part.store(view, range(2, 3), 0)
    assert moved(one) == ("STORE", first, 1, 4, 0, 0, 0)


def test_columns_of_an_image_that_stays_are_loaded_with_all_others():
    image = store(resident=True, given=True)
    view, (load,) = image.part(columns=range(4, 8)).read(range(8), 0)
    assert (view.row, view.pitch) == (4, 10)
    assert moved(load) == ("LOAD", 0, 1, 160, 0, 0, 0)
    assert image.part(columns=range(8, 10)).read(range(8), 0)[1] == []


def test_skewed_rows_have_a_gap_that_is_not_transferred():
    image = store(skew=1)
    view, loads = image.read(range(2, 6), 0)
    assert (view.pitch, view.block_pitch, view.buffer.rows) == (11, 44, 88)
    assert [moved(op) for op in loads] == [
        ("LOAD", 2 * ROW, 4, 10, ROW, 11, 0),
        ("LOAD", 2 * ROW + BLOCK, 4, 10, ROW, 11, 44),
    ]
    assert store(skew=1, resident=True).rows == 2 * 8 * 11


def test_rows_are_loaded_from_beats_on():
    config = Config(array_size=4)
    spec = TensorSpec("x", Window.INPUT, 0, 8 * 6, 4, "int8", (8, 6))
    image = Store.of("x", StoreExtents(8, 6, 1), config, InDram((spec,), True), resident=False)
    assert image.grain == 2  # of 24 bytes, 1.5 beats
    view, (load,) = image.read(range(3, 5), 0)
    assert (view.rows, load.fields["offset"], load.fields["rows"]) == (range(2, 5), 48, 18)
    whole = Store.of("x", StoreExtents(8, 6, 1), config, InDram((spec,), True), resident=True)
    assert moved(whole.read(range(3), 0)[1][0])[2:4] == (1, 24)  # a row more: the next ones begin
    assert moved(whole.read(range(8), 0)[1][0])[1] == 96


def test_flat_images_are_one_column():
    flat = store().flat()
    assert (flat.height, flat.width) == (80, 1)
    view, (load,) = flat.read(range(15, 40), 0)
    assert (view.pitch, view.block_pitch) == (1, 25)
    assert moved(load) == ("LOAD", 15 * 16, 2, 25, BLOCK, 25, 0)
    assert store(resident=True).flat().open(range(15, 40)).at(15, block=1).row == 80 + 15


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_top_bits_of_uint8_are_inverted_on_the_way(dtype):
    image = store(dtype=dtype, window=Window.SCRATCH)
    view, (load,) = image.read(range(8), 0)
    (op,) = image.store(view, range(8), 0)
    assert load.fields["flip"] == op.fields["flip"] == (dtype == "uint8")


def test_int32_takes_four_rows_a_vector():
    spec = TensorSpec("x", Window.OUTPUT, 0, 80, 32, "int32", (8, 10))
    image = Store.of("x", StoreExtents(8, 10, 2, 4), CONFIG, InDram((spec,)), resident=False)
    view = image.open(range(2, 4))
    assert (view.pitch, view.buffer.rows, image.rows) == (40, 160, 640)
    (op,) = image.store(view, range(2, 4), 0)
    assert moved(op) == ("STORE", 2 * 4 * ROW, 2, 80, 4 * BLOCK, 80, 0)


def test_copies_of_outputs_are_stored_too():
    output = TensorSpec("x", Window.OUTPUT, 0, 80, 32, "int8", (8, 10))
    image = store(window=Window.SCRATCH, copies=(output,))
    ops = image.store(image.open(range(8)), range(8), 0)
    assert [op.fields["window"] for op in ops] == [Window.SCRATCH, Window.OUTPUT]


def test_strips_may_be_made_in_the_place_of_strips_that_are_alike():
    old, new = store().open(range(2, 4)), store()
    assert new.open(range(2, 4), [old]).buffer.over is old.buffer
    assert new.open(range(2, 5), [old]).buffer.over is None
    assert new.open(range(3, 5), [old]).buffer.over is None
    assert store(skew=1).open(range(2, 4), [old]).buffer.over is None
    whole = store(resident=True)
    over = store(resident=True, over=whole).open(range(8)).buffer.over
    assert over is whole.open(range(8)).buffer is not None
