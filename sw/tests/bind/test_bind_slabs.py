"""The selectors of windowed layers: what they promise holds on dense grids of shapes."""

import numpy as np
import pytest

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.bind import Shape, compile_range
from tpulite.compiler.geometry.axis import Axis1D, grain
from tpulite.compiler.plan.slabs import WindowedRows, choose_all, slab_bounds, slab_modes
from tpulite_testing.drawn.range_cases import config_name, draw_case

CONFIGS = (
    Config(),
    Config(ub_rows=1024, acc_rows=64),
    Config(array_size=4, ub_rows=4096),
    Config(array_size=8, ub_rows=2048, acc_rows=256),
    Config(array_size=32, ub_rows=2048),
)


def buffer_rows(kind: str, facts, sizes) -> np.ndarray:
    """Return the rows of the buffer that a strategy takes."""
    inputs = sizes["in_rows"] * sizes["in_columns"]
    outputs = sizes["slab_rows"] * sizes["out_columns"]
    if kind == "pool":
        places = sizes["slots"] * sizes["tile_blocks"]
        return places * (inputs + outputs) + facts.record_rows
    slots, units = sizes["slots"], facts.small
    blocks = 1
    if sizes["name"] in ("resident", "streamed"):
        blocks, units = facts.blocks, facts.large
    weights = units.total if sizes["name"] == "resident" else slots.weights * units.largest
    outputs = outputs * facts.vector_rows
    return slots.inputs * blocks * inputs + slots.outputs * outputs + weights


@pytest.mark.parametrize("kind", ["pool", "conv"])
@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_every_shape_of_a_dense_grid_has_a_strategy_that_fits(config, kind):
    done = 0
    for seed in range(12):
        case = draw_case(np.random.default_rng((seed, ord(kind[0]))), kind)
        try:
            program = compile_range(case.graph(90, 90), case.range(4, 90, 90), config)
        except ValueError:
            assert config.ub_bytes < 1 << 18, "only a small buffer refuses"
            continue
        top, left = case.smallest
        axes = np.arange(1, 5), np.arange(top, 91), np.arange(left, 91)
        grid = np.meshgrid(*axes, indexing="ij")
        batch, height, width = (axis.ravel() for axis in grid)
        channels = np.full(batch.shape, case.channels)
        for packed in program.network.packed.values():
            height, width = packed.count(height, width)
        strategies = program.operator.strategies((batch, height, width, channels))
        chosen = choose_all(strategies, batch.shape)
        assert (chosen >= 0).all()
        out_height = program.operator.axes_of(1, 1)[0].outputs(height)
        for index, strategy in enumerate(strategies):
            here = chosen == index
            if not here.any():
                continue
            sizes = {
                name: value if name == "slots" else np.broadcast_to(value, batch.shape)[here]
                for name, value in strategy.sizes.items()
            }
            sizes["name"] = strategy.name.partition("/")[0]
            if kind == "pool":
                sizes["slots"] = int(sizes["slots"])
            rows = buffer_rows(kind, program.operator.facts, sizes)
            assert (rows <= config.ub_rows).all(), strategy.name
            mode = strategy.name.partition("/")[2]
            if kind == "conv" and mode == "image" and config.row_bytes >= BEAT_BYTES:
                vectors = sizes["slab_rows"] * sizes["out_columns"]
                assert (vectors <= np.maximum(config.acc_rows, sizes["out_columns"])).all()
            for name in ("slabs", "parts", "panels", "slab_rows", "in_rows", "out_columns"):
                assert (sizes[name] >= 1).all(), (strategy.name, name)
            if not getattr(program.operator, "flat", False):
                most = batch * out_height
                assert (sizes["slabs"] <= most[here]).all(), "no slab is empty"
        done += 1
    assert done >= 5


def windows(seed: int):
    rng = np.random.default_rng(seed)
    kernel, stride = (int(v) for v in rng.integers(1, 6, 2))
    axis = Axis1D(kernel, stride, int(rng.integers(1, 3)), *(int(v) for v in rng.integers(0, 4, 2)))
    return rng, axis


@pytest.mark.parametrize("seed", range(40))
def test_slabs_cover_all_rows_and_read_no_more_than_promised(seed):
    rng, axis = windows(seed)
    for _ in range(60):
        height = int(rng.integers(max(1, axis.reach - axis.before - axis.after), 60))
        out_height, batch = axis.outputs(height), int(rng.integers(1, 6))
        size = int(rng.choice([4, 8, 12, 16, 20]))
        out_bytes = int(rng.choice([4, 8, 12, 16, 20]))
        loose = axis.before + axis.after
        rows = WindowedRows(
            batch, height, out_height, axis.stride, axis.reach, size, out_bytes, loose
        )
        room, wanted = int(rng.integers(10, 400)), int(rng.integers(1, 30))
        costs = {"in_cost": int(rng.integers(1, 5)), "out_cost": int(rng.integers(1, 5))}
        feasible = 0
        for slabs in slab_modes(rows, **costs, room=room, limit=100, wanted=wanted):
            if not slabs.feasible:
                continue
            feasible += 1
            sizes = slabs.sizes
            bounds = slab_bounds(slabs.mode, sizes["parts"], rows)
            counts = np.diff(bounds)
            assert (bounds[0], bounds[-1]) == (0, batch * out_height)
            assert len(counts) == sizes["slabs"]
            assert counts.min() >= 1, "no slab is empty"
            assert counts.max() <= sizes["slab_rows"]
            assert not (bounds[:-1] * out_bytes % 16).any(), "slabs begin at beats"
            first, stop = axis.reads(bounds[:-1], bounds[1:], height, grain(size))
            assert (first >= 0).all()
            assert (stop <= batch * height).all()
            assert (stop > first).all()
            assert (stop - first).max() <= sizes["in_rows"]
            assert not (first * size % 16).any(), "loads begin at beats"
            taken = costs["in_cost"] * sizes["in_rows"] + costs["out_cost"] * sizes["slab_rows"]
            assert taken <= room
            if slabs.mode == "image":
                assert counts.max() - counts.min() <= 2 * grain(out_bytes), "balanced"
        whole = costs["in_cost"] * batch * height + costs["out_cost"] * batch * out_height
        assert feasible or whole > room


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_where_windows_change(seed):
    rng, axis = windows(seed)
    for _ in range(30):
        size = int(rng.integers(max(1, axis.reach - axis.before - axis.after), 40))
        count = axis.outputs(size)
        starts = axis.runs(size)
        assert starts[0] == 0
        assert len(starts) == len(set(starts.tolist()))
        first, stop = axis.clip(np.arange(count), size)
        for begin, end in zip(starts, [*starts[1:], count], strict=True):
            assert end > begin
            assert len(set((stop - first)[begin:end].tolist())) == 1, "one size"
            if end - begin > 1:
                assert set(np.diff(first[begin:end]).tolist()) == {axis.stride}


def test_a_batch_that_does_not_begin_at_beats_passes_through():
    config = Config(array_size=4, ub_rows=256)
    names = set()
    for seed in range(40):
        case = draw_case(np.random.default_rng((seed, 1)), "pool")
        try:
            program = compile_range(case.graph(30, 9), case.range(5, 30, 9), config)
        except ValueError:
            continue
        names.add(program.strategy(Shape(3, 29, 9, case.channels)).name.partition("/")[2])
    assert "through" in names
