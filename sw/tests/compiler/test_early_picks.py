"""Pixels that a network picks are picked before they are computed, and the results stay."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.passes import rewrite
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.early_picks import pick_pixels_first
from tpulite.compiler.state import State
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Concat, LayerGraph, MatMul, Pick
from tpulite.runtime.session import Session
from tpulite_testing.drawn.plain_graphs import GraphBuilder, varied
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import random_requantization

SHAPE = (3, 17, 24)


def picked(builder: GraphBuilder, source: str, rows=(0,), columns=(0,), name="picked") -> str:
    """Add a pick of pixels with all their channels."""
    channels = tuple(range(builder.activations[source].shape[2]))
    return builder._add(name, Pick, source, rows=rows, columns=columns, channels=channels)


def assert_same(layers: LayerGraph, other: LayerGraph) -> None:
    x = np.random.default_rng(1).integers(-128, 128, layers.activations["x"].shape, np.int8)
    found, due = run_layers(other, {"x": x}), run_layers(layers, {"x": x})
    for name in layers.outputs:
        np.testing.assert_array_equal(found[name], due[name])


def block(*, rows=(0,), columns=(0,), twice=False) -> LayerGraph:
    """Return the feed-forward network of a transformer, of which a classifier reads a token."""
    builder = GraphBuilder(SHAPE)
    builder.conv("x", 32, name="before", padding=(1, 1, 1, 1))
    builder.conv("before", 96, 1, name="wide")
    builder.lut("wide", name="gelu")
    builder.conv("gelu", 32, 1, name="narrow")
    builder.add("before", "narrow", name="sum")
    picked(builder, "sum", rows, columns)
    outputs = [builder.conv("picked", 10, 1, name="classes")]
    if twice:
        picked(builder, "sum", rows, columns, "again")
        outputs.append(builder.conv("again", 5, 1, name="others"))
    return varied(builder.graph(*outputs))


@given(
    rows=st.lists(st.integers(0, 2), min_size=1, max_size=4),
    columns=st.lists(st.integers(0, 16), min_size=1, max_size=4),
    twice=st.booleans(),
)
def test_picks_go_to_the_last_layer_that_sees_neighbors(rows, columns, twice):
    layers = block(rows=tuple(rows), columns=tuple(columns), twice=twice)
    early = pick_pixels_first(layers)
    (pick,) = (layer for layer in early.layers if isinstance(layer, Pick))
    assert pick.inputs == ("before",)
    for layer in early.layers:
        fewer = layer.name != "before"
        assert early.activations[layer.output].shape[:2] == (
            (len(rows), len(columns)) if fewer else SHAPE[:2]
        )
    assert_same(layers, early)


def test_the_chip_computes_one_token():
    layers = block()
    assert "pick-pixels-first" in rewrite(State.of(layers, Config(), Options())).changed
    program = kept_program(layers, Config(), Options(effort=0))
    plain = compile_layers(layers, Config(), Options(effort=0, without=("pick-pixels-first",)))
    cycles = [predict_cycles(each.commands, Config()) for each in (program, plain)]
    assert cycles[0] < 0.8 * cycles[1]
    x = np.random.default_rng(2).integers(-128, 128, SHAPE, np.int8)
    found = Session(program, "golden").run({"x": x}).outputs["classes"]
    np.testing.assert_array_equal(found, run_layers(layers, {"x": x})["classes"])


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_activations_are_picked_by_rows_of_the_first(transposed):
    builder = GraphBuilder((3, 17, 8))
    builder.conv("x", 17, 1, name="scores")
    b = builder.conv("x", 17 if transposed else 9, 1, name="values")
    record = random_requantization(np.random.default_rng(3), 1, 100_000)
    record = replace(record, bias=np.zeros(1, np.int32))
    builder._add("mixed", MatMul, "scores", b, requantization=record, transposed=transposed)
    picked(builder, "mixed", (2, 0), (4,))
    layers = varied(builder.graph("picked"))
    early = pick_pixels_first(layers)
    shapes = {layer.name: early.activations[layer.output].shape for layer in early.layers}
    assert shapes["scores"] == (2, 1, 17)
    assert shapes["values"][:2] == (2, 17)
    assert_same(layers, early)


def test_inputs_that_are_joined_by_channel_are_picked_each():
    builder = GraphBuilder(SHAPE)
    builder.conv("x", 16, name="a", padding=(1, 1, 1, 1))
    builder.conv("x", 32, name="b", padding=(1, 1, 1, 1))
    builder._add("joined", Concat, "a", "b", axis=2)
    picked(builder, "joined", (1,), (2, 3))
    layers = varied(builder.graph("picked"))
    early = pick_pixels_first(layers)
    assert sum(isinstance(layer, Pick) for layer in early.layers) == 2
    assert_same(layers, early)


@pytest.mark.parametrize("reader", ["output", "kernel", "other pixels", "all pixels", "channels"])
def test_whoever_needs_all_pixels_gets_them(reader):
    builder = GraphBuilder(SHAPE)
    builder.conv("x", 16, 3 if reader == "kernel" else 1, name="a")
    rows, columns, _ = builder.activations["a"].shape
    outputs = ["picked"]
    if reader == "all pixels":
        picked(builder, "a", tuple(range(rows)), tuple(reversed(range(columns))))
    elif reader == "channels":
        builder._add("picked", Pick, "a", rows=(0,), columns=(0,), channels=tuple(range(8)))
    else:
        picked(builder, "a")
    if reader == "output":
        outputs.append("a")
    elif reader == "other pixels":
        outputs.append(picked(builder, "a", (0,), (1,), "other"))
    layers = varied(builder.graph(*outputs))
    assert pick_pixels_first(layers) is layers


def test_a_picked_result_of_the_network_keeps_its_name():
    builder = GraphBuilder(SHAPE)
    builder.lut("x", name="a")
    layers = varied(builder.graph(picked(builder, "a")))
    early = pick_pixels_first(layers)
    assert early.outputs == ("picked",)
    assert early.activations["x"] == Activation(SHAPE)
    assert_same(layers, early)
