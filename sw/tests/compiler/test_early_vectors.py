"""Vectors come as soon as what they read is made, and the results stay."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.options import Options
from tpulite.compiler.passes import PASSES, run_passes
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.schedule.early_vectors import put_vectors_early
from tpulite.compiler.state import State
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Elementwise, LayerGraph, Made, Pool
from tpulite.runtime.session import Session
from tpulite_testing.drawn.plain_graphs import GraphBuilder, varied
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import random_requantization

RNG = np.random.default_rng(11)
SIZE, CHANNELS = 7, 480


def gated(size=SIZE, channels=CHANNELS) -> LayerGraph:
    """Return a depthwise layer, a table, the mean, a gate of it, and the product of both."""
    builder = GraphBuilder((size, size, 16))
    builder.conv("x", channels, 1, name="wide")
    builder.depthwise("wide", name="spread", padding=(1, 1, 1, 1))
    builder.lut("spread", name="swish")
    fields = {"op": "average", "window": (size, size)}
    builder._add("mean", Pool, "swish", **fields)
    builder.conv("mean", 16, 1, name="squeezed")
    builder.conv("squeezed", channels, 1, name="gate")
    record = random_requantization(RNG, 1, 20_000)
    record = replace(record, bias=np.zeros(1, np.int32))
    builder._add(
        "product", Elementwise, "swish", "gate", op="mul", requantization=record, zero_points=(3, 4)
    )
    builder.conv("product", 16, 1, name="narrow")
    return varied(builder.graph("narrow"))


def _quiet(_: str) -> None: ...


def tiled(layers: LayerGraph, config: Config, **options) -> State:
    """Return the network with its commands in the order of layers."""
    passes = [each for each in PASSES if each.name != "put-vectors-early"]
    last = next(i for i, each in enumerate(passes) if each.name == "tile")
    return run_passes(passes[: last + 1], State.of(layers, config, Options(**options)), _quiet)


@pytest.mark.parametrize(
    ("config", "less"),
    [(Config(array_size=8), 0.99), (Config(array_size=8, vector_lanes=2), 0.99)],
)
def test_the_mean_is_ready_with_the_last_block(config, less):
    layers = gated()
    program = kept_program(layers, config, Options(effort=0))
    without = ("put-vectors-early",)
    plain = compile_layers(layers, config, Options(effort=0, without=without))
    cycles = [predict_cycles(each.commands, config) for each in (program, plain)]
    assert cycles[0] < less * cycles[1]
    x = RNG.integers(-128, 128, (SIZE, SIZE, 16), np.int8)
    found = Session(program, "golden").run({"x": x}).outputs["narrow"]
    np.testing.assert_array_equal(found, run_layers(layers, {"x": x})["narrow"])


def test_only_vectors_and_their_constants_change_places():
    state = tiled(gated(), Config())
    ops = state.tiling.ops
    early = put_vectors_early(ops, Config())
    assert early != ops
    assert sorted(map(id, early)) == sorted(map(id, ops))
    loads = [op for op in ops if op.opcode is Opcode.LOAD and op.layer in vector_layers(ops)]
    moved = {id(op) for op in ops if op.opcode is Opcode.VECTOR} | set(map(id, loads))
    stay = [[id(op) for op in each if id(op) not in moved] for each in (ops, early)]
    assert stay[0] == stay[1]
    places = {id(op): i for i, op in enumerate(early)}
    for i, op in enumerate(ops):  # none goes back behind a command that followed it
        later = [other for other in ops[i + 1 :] if id(other) not in moved]
        assert all(places[id(op)] < places[id(other)] for other in later)


def test_layers_that_stay_take_no_memory():
    builder = GraphBuilder((64, 64, 16))
    builder.conv("x", 32, 1, name="wide")
    builder.conv("wide", 16, 3, name="small", stride=(16, 16))
    builder.depthwise("small", name="spread", padding=(1, 1, 1, 1))
    builder.lut("spread", name="swish")
    builder.pool("swish", (4, 4), name="most")
    layers = varied(builder.graph("most"))
    config = Config(array_size=4, ub_rows=1024)
    ops = tiled(layers, config, effort=0).tiling.ops
    assert len({region.buffer for op in ops for region in op.rows.values()}) > 400
    tracemalloc.start()
    early = put_vectors_early(ops, config)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert early != ops
    assert peak < 4_000_000


def vector_layers(ops) -> set[int]:
    return {op.layer for op in ops if op.opcode is Opcode.VECTOR}


def test_a_large_program_keeps_its_order_if_no_layers_change_places(monkeypatch):
    from tpulite.compiler import early_choice

    builder = GraphBuilder((SIZE, SIZE, 16))
    builder.conv("x", 64, 1, name="wide")
    builder.lut("wide", name="swish")
    builder.conv("swish", 16, 1, name="narrow")
    layers = varied(builder.graph("narrow"))
    state = run_passes(
        [each for each in PASSES if each.name not in ("put-vectors-early", "assemble")],
        State.of(layers, Config(), Options(effort=0)),
        _quiet,
    )
    monkeypatch.setattr(early_choice, "_MOST", 0)
    assert early_choice.put_early(state) is state


def test_the_vector_path_follows_the_array_through_layers_in_place():
    layers = gated()
    assert layers.made("spread") is Made.BY_BLOCKS
    assert layers.made("swish") is Made.BEHIND
    assert layers.made("mean") is Made.OTHERWISE
    assert layers.made("x") is Made.OTHERWISE
