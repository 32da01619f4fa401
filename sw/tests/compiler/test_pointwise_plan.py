import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.bench.goals import GOALS
from tpulite.compiler.options import Options
from tpulite.compiler.plan.pointwise import (
    SLOTS,
    best_pointwise_plan,
    pointwise_facts,
    pointwise_plans,
)
from tpulite.compiler.plan.slabs import Room
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Affine, Elementwise, LayerGraph, Lut, Requantization
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program

HALF = Requantization(multiplier=np.array([1 << 30]), shift=np.array([0]))
LAYERS = {
    "table": lambda channels: Lut(
        name="f", inputs=("x",), output="y", table=np.arange(-128, 128)[::-1].astype(np.int8)
    ),
    "affine": lambda channels: Affine(
        name="f",
        inputs=("x",),
        output="y",
        gain=np.arange(1, channels + 1).astype(np.int16),
        requantization=HALF,
    ),
    "sum": lambda channels: Elementwise(
        name="f", inputs=("x", "z"), output="y", op="add", requantization=HALF, zero_points=(3, -7)
    ),
    "double": lambda channels: Elementwise(
        name="f", inputs=("x", "x"), output="y", op="add", requantization=HALF, zero_points=(3, -7)
    ),
}


def network(kind, shape):
    layer = LAYERS[kind](shape[-1])
    names = tuple(dict.fromkeys(layer.inputs))
    images = dict.fromkeys((*names, "y"), Activation(shape))
    return LayerGraph(kind, (layer,), images, names, ("y",))


def plan_of(graph, config):
    (layer,) = graph.layers
    height, width, channels = graph.activations["y"].shape
    facts = pointwise_facts(layer, [graph.activations[name].shape for name in graph.inputs], config)
    grain = max(1, 16 // config.row_bytes)
    blocks = -(-channels // config.array_size)
    return best_pointwise_plan(facts, height * width, blocks, grain, room=config.ub_rows)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("shape", [(56, 56, 48), (56, 40, 64), (7, 7, 256), (1, 1000, 16)], ids=str)
def test_costs_are_those_of_the_cycle_model(kind, shape):
    graph, config = network(kind, shape), Config()
    cycles = predict_cycles(kept_program(graph, config).commands, config)
    assert plan_of(graph, config).cycles == pytest.approx(cycles, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "shape", "most"),
    [
        ("table", (56, 56, 48), GOALS["sigmoid_56x56x48"]),
        ("sum", (56, 56, 48), 20_700),  # two turns of each lane: what its operands take to come
        ("affine", (56, 40, 64), GOALS["affine_56x40x64"]),
    ],
)
def test_loads_and_stores_run_side_by_side_from_dram_to_dram(kind, shape, most):
    config = Config()
    assert predict_cycles(kept_program(network(kind, shape), config).commands, config) <= most


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize("config", [Config(array_size=4, ub_rows=128), Config(ub_rows=64)], ids=str)
def test_tiles_are_exact_where_there_is_hardly_room(kind, prefetch, config):
    graph = network(kind, (5, 9, 40))
    rng = np.random.default_rng(1)
    given = {x: rng.integers(-128, 128, (5, 9, 40)).astype(np.int8) for x in graph.inputs}
    program = kept_program(graph, config, Options(prefetch=prefetch))
    results = Session(program, GoldenDevice(config)).run(given)
    np.testing.assert_array_equal(results.outputs["y"], run_layers(graph, given)["y"])


def test_tiles_cover_all_planes_once():
    rng = np.random.default_rng(2)
    for _ in range(200):
        config = Config(array_size=int(rng.choice([4, 8, 16, 32])))
        pixels, blocks = int(rng.integers(1, 3000)), int(rng.integers(1, 9))
        grain = max(1, 16 // config.row_bytes)
        facts = pointwise_facts(LAYERS["table"](16), [(1, 1, 16)], config)
        room = int(rng.integers(256, 9999))
        for plan in pointwise_plans(facts, pixels, blocks, grain, Room(room)):
            if plan.feasible:
                assert plan.slot_rows * SLOTS <= room
                cuts = plan.cuts(blocks, pixels, grain)
                assert len(cuts) == plan.tiles
                assert all(part.start % grain == 0 for _, part in cuts)
                covered = [(b, p) for some, part in cuts for b in some for p in part]
                assert covered == [(b, p) for b in range(blocks) for p in range(pixels)]
