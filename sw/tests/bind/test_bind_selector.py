"""The selector of BatchNorm is total: every shape of a large range, in closed form."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import VECTOR
from tpulite.arch.memory import Window
from tpulite.arch.numerics import Rounding
from tpulite.compiler.bind import Shape, ShapeRange, compile_range
from tpulite.compiler.geometry.axis import ceil_div, cuts, grain
from tpulite.compiler.plan.pointwise import SLOTS
from tpulite.compiler.plan.slabs import choose_all
from tpulite.graph.layers import Activation, Affine, LayerGraph, Requantization
from tpulite_testing.drawn.range_cases import bytes_moved, config_name
from tpulite_testing.regress import thinned

SIZE = 1024
COLUMNS = next(field.range[-1] for field in VECTOR.fields if field.name == "columns")
CONFIGS = {
    config_name(config): config
    for config in (
        Config(),
        Config(ub_rows=1024),
        Config(ub_rows=256),
        Config(array_size=4, ub_rows=256),
        Config(array_size=8, vector_lanes=2),
        Config(array_size=32, ub_rows=4096),
    )
}


def batch_norm(channels: int = 1024) -> LayerGraph:
    rng = np.random.default_rng(channels)
    layer = Affine(
        name="batch_norm",
        inputs=("x",),
        output="y",
        gain=rng.integers(-300, 300, channels).astype(np.int16),
        requantization=Requantization(
            multiplier=rng.integers(1 << 30, (1 << 31) - 1, channels),
            shift=-rng.integers(1, 4, channels),
            rounding=Rounding.TFLITE,
        ),
    )
    image = Activation((1, 1, channels))
    return LayerGraph("dynamic", (layer,), {"x": image, "y": image}, ("x",), ("y",))


def dynamic(config: Config):
    shapes = ShapeRange((1, 1), (1, SIZE), (1, SIZE), (1, SIZE))
    return compile_range(batch_norm(), shapes, config)


def check_shapes(program, pixels: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Check what the selector chooses for planes of some sizes; return the choice."""
    config, size = program.config, program.config.array_size
    strategies = program.operator.strategies((1, pixels, np.int64(1), blocks * size))
    shape = np.broadcast_shapes(pixels.shape, blocks.shape)
    chosen = choose_all(strategies, shape)
    assert (chosen >= 0).all(), "every shape has a strategy"
    unit = grain(config.row_bytes)
    units = ceil_div(pixels, unit)
    for index, strategy in enumerate(strategies):
        sizes = {
            name: np.broadcast_to(value, shape)[chosen == index]
            for name, value in (*strategy.sizes.items(), ("units", units), ("blocks", blocks))
        }
        plane = np.broadcast_to(pixels, shape)[chosen == index]
        if strategy.name == "planes":
            # cuts() makes ``tiles`` pieces of the blocks, each of at most ``tile_blocks``.
            assert (sizes["tiles"] >= 1).all()
            assert (sizes["tiles"] <= sizes["blocks"]).all(), "no tile is empty"
            assert (ceil_div(sizes["blocks"], sizes["tiles"]) == sizes["tile_blocks"]).all()
            assert (sizes["tile_pixels"] == plane).all()
        else:
            assert (sizes["parts"] >= 1).all()
            assert (sizes["parts"] <= sizes["units"]).all(), "no tile is empty"
            longest = np.minimum(ceil_div(sizes["units"], sizes["parts"]) * unit, plane)
            assert (longest == sizes["tile_pixels"]).all()
            assert (sizes["tiles"] == sizes["parts"] * sizes["blocks"]).all()
        rows = sizes["tile_blocks"] * (sizes["tile_pixels"] + config.record_rows)
        assert (rows == sizes["slot_rows"]).all()
        assert (SLOTS * rows <= config.ub_rows).all(), "tiles fit the buffer side by side"
        assert (sizes["tile_pixels"] <= COLUMNS).all()
        assert (sizes["tile_blocks"] <= COLUMNS).all()
    return chosen


@pytest.mark.parametrize(
    "name", thinned(CONFIGS, "4x256", "8x16384", "32x4096", reason="other sizes are like them")
)
def test_every_shape_up_to_1024_cubed_has_tiles_that_fit_and_are_not_empty(name):
    # Height and width count only as their product, channels only as blocks.
    program = dynamic(CONFIGS[name])
    axis = np.arange(1, SIZE + 1)
    pixels = np.unique(np.outer(axis, axis))
    assert pixels[-1] == SIZE * SIZE
    most = -(-SIZE // program.config.array_size)
    step = 1 if name == "16x16384" else most // 8
    used = {
        int(index)
        for blocks in {*range(1, most + 1, step), most}
        for index in np.unique(check_shapes(program, pixels, np.array([blocks])))
    }
    assert used == {0, 1}, "both strategies are worth having"


@pytest.mark.parametrize("unit", [1, 2, 4])
def test_cuts_cover_exactly_once_and_leave_nothing_empty(unit):
    for extent in range(1, 120):
        units = -(-extent // unit)
        for parts in range(1, units + 1):
            bounds = cuts(extent, parts, unit)
            sizes = np.diff(bounds)
            assert (bounds[0], bounds[-1], len(sizes)) == (0, extent, parts)
            assert sizes.min() >= 1
            assert sizes.max() <= -(-units // parts) * unit
            assert not (bounds[:-1] % unit).any()
            whole = sizes[:-1] if extent % unit else sizes
            assert not whole.size or whole.max() - whole.min() <= unit, "balanced"


def published_faults() -> dict[str, np.ndarray]:
    """Return [H, W] truth tables of the shapes on which the published selector fails.

    Its formulas, for float16 and channels that do not matter: planes of more than 112 KB are cut
    into slabs of whole rows, a quarter of that each, in elements.
    """
    axis = np.arange(1, SIZE + 1)
    height, width = axis[:, None], axis[None, :]
    plane, limit = height * width, 112 * 1024
    slabs = -(-plane // (limit // 4))
    rows = -(-height // slabs)
    several = slabs >= 2
    return {
        "between two comparisons": 2 * plane == limit,
        "slab larger than the buffer": several & (rows * width > limit // 4),
        "last slab empty or negative": several & (height - rows * (slabs - 1) <= 0),
        "transfer rounded up": several & (rows * width % 16 > 0),
    }


def test_shapes_on_which_the_published_selector_fails_are_ordinary():
    faults = published_faults()
    counts = {name: int(table.sum()) for name, table in faults.items()}
    assert counts == {
        "between two comparisons": 10,
        "slab larger than the buffer": 104_691,
        "last slab empty or negative": 1_480,
        "transfer rounded up": 742_185,
    }
    program = dynamic(Config())
    for table in faults.values():
        height, width = (axis + 1 for axis in np.nonzero(table))
        for blocks in (1, 4, 64):
            check_shapes(program, np.unique(height * width), np.array([blocks]))
    program.bind(224, 256, channels=16)


SPECIAL = [
    (224, 256, 16),  # H * W * 2 = 112 KB
    (256, 224, 3),
    (32, 32, 1024),  # C = H * W
    (4, 4, 16),
    (8, 6, 1024),  # C > H * W
    (1, 1, 1),
    (1, 1, 1024),
    (1, 1024, 33),
    (1024, 1, 17),
    (1023, 1021, 5),
]


@pytest.mark.parametrize("name", CONFIGS)
def test_programs_move_every_byte_once_and_none_beside_the_tensors(name):
    program, rng = dynamic(CONFIGS[name]), np.random.default_rng(7)
    size = program.config.array_size
    # A small buffer takes many commands, which take time to decode.
    largest = 200 if program.config.ub_rows >= 4096 else 40
    special = SPECIAL if largest == 200 else SPECIAL[3:8]
    shapes = [*special, *rng.integers(1, largest, (20, 3)).tolist()]
    for height, width, channels in shapes:
        bound = program.bind(height, width, channels=channels)
        plane, blocks = height * width * size, -(-channels // size)
        stride = -(-plane // 16) * 16
        for window in (Window.INPUT, Window.OUTPUT):
            counts = bytes_moved(bound, window).reshape(blocks, stride)
            assert (counts[:, :plane] == 1).all()
            assert not counts[:, plane:].any(), "padding between blocks is not touched"


def test_one_shape_and_many_at_once_get_the_same_strategy():
    rng, program = np.random.default_rng(3), dynamic(Config())
    shapes = rng.integers(1, SIZE + 1, (500, 3))
    ones, (height, width, channels) = np.ones(500, np.int64), shapes.T
    strategies = program.operator.strategies((ones, height, width, channels))
    chosen = choose_all(strategies, (500,))
    for i, shape in enumerate(shapes.tolist()):
        one = program.strategy(Shape(1, *shape))
        many = strategies[chosen[i]]
        assert one.name == many.name
        assert one.cycles == many.cycles[i]
        for name, value in one.sizes.items():
            assert value == np.broadcast_to(many.sizes[name], (500,))[i], (shape, name)
        assert Shape(1, *shape)[1:] == tuple(shape)
