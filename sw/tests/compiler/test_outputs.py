"""Layers of few output channels compute several pixels at once, and the results stay."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.passes import rewrite
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.state import State
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import (
    Activation,
    Conv,
    DepthToSpace,
    Layer,
    LayerGraph,
    Lut,
    Pad,
    Pool,
    TransposedConv,
)
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import random_requantization
from tpulite_testing.quick_options import quick_options

SAME = (1, 1, 1, 1)
TABLE = np.random.default_rng(5).permutation(np.arange(-128, 128)).astype(np.int8)


def network(shape, kernel, outputs, tail="", repeats=1, **fields) -> LayerGraph:
    """Return a layer with random weights, transposed if it has a size, and its ``tail``.

    "table": a table; "both": also the layer's result is one; "frame": padding, "pixels": channels
    that become pixels. ``repeats``: how often each channel occurs.
    """
    rng = np.random.default_rng(7)
    kind = TransposedConv if "size" in fields else Conv
    layer: Layer = kind(
        name="layer",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (*kernel, shape[2], outputs), np.int8),
        requantization=random_requantization(rng, outputs, 100_000),
        input_zero_point=-9,
        weight_zero_point=int(rng.integers(-2, 3)),
        **fields,
    )
    layers, images = [layer], {"x": Activation(shape)}
    ends = {"name": "tail", "inputs": ("y",), "output": "z"}
    if tail in ("table", "both"):
        layers.append(Lut(**ends, table=TABLE))
    elif tail == "frame":
        layers.append(Pad(**ends, padding=(1, 0, 0, 2), value=3))
    elif tail == "pixels":
        layers.append(DepthToSpace(**ends, block=(2, 2), channels=outputs // 4))
    if repeats > 1:
        layers[0] = layer.of_channels(np.tile(np.arange(outputs), repeats))
    for each in layers:
        images[each.output] = each._infer(images[each.inputs[0]])
    results = ("y", "z") if tail == "both" else (layers[-1].output,)
    return LayerGraph("few", tuple(layers), images, ("x",), results)


def inside(layers: LayerGraph) -> LayerGraph:
    """Return the network behind a pool, so that the host does not pack its input."""
    shape, ends = layers.activations["x"].shape, {"inputs": ("x",), "output": "pooled"}
    pool = Pool(name="pool", **ends, op="max", window=(3, 3), padding=SAME)
    first = replace(layers.layers[0], inputs=("pooled",))
    images = {**layers.activations, "pooled": Activation(shape)}
    return replace(layers, layers=(pool, first, *layers.layers[1:]), activations=images)


def assert_exact(layers, config, options=None):
    x = np.random.default_rng(1).integers(-128, 128, layers.activations["x"].shape, np.int8)
    program = kept_program(layers, config, options or quick_options())
    found, due = Session(program, "golden").run({"x": x}).outputs, run_layers(layers, {"x": x})
    for name in layers.outputs:
        np.testing.assert_array_equal(found[name], due[name])


def changed(layers, config, **options):
    return {*rewrite(State.of(layers, config, Options(**options))).changed}


@st.composite
def networks(draw):
    extents = st.tuples(st.integers(1, 4), st.integers(1, 4))
    kernel, stride = draw(extents), draw(extents)
    shape = (
        draw(st.integers(1, 12)),
        draw(st.integers(1, 12)),
        draw(st.sampled_from([1, 5, 16, 20])),
    )
    outputs, repeats = draw(st.integers(1, 8)), draw(st.sampled_from([1, 1, 2, 5, 20]))
    tail = draw(st.sampled_from(["", "table", "both", "frame"]))
    if draw(st.booleans()):
        sizes = [n * s - draw(st.integers(0, s - 1)) for n, s in zip(shape, stride, strict=False)]
        lost = tuple(draw(st.integers(0, k - 1)) for k in kernel)
        fields = {"stride": stride, "padding": lost, "size": (sizes[0], sizes[1])}
    else:
        dilation = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2), (2, 2)]))
        reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
        before = [draw(st.integers(0, n)) for n in reach]
        behind = [max(n + 1 - e - b, 0) for n, e, b in zip(reach, shape, before, strict=False)]
        fields = {"stride": stride, "dilation": dilation, "padding": (*before, *behind)}
    return network(shape, kernel, outputs, tail, repeats, **fields)


@settings(max_examples=25)  # each is compiled
@given(
    layers=networks(),
    config=st.sampled_from([Config(array_size=4), Config(), Config(ub_rows=512, acc_rows=64)]),
)
def test_joined_outputs_are_those_of_the_layer(layers, config):
    assert_exact(layers, config)


LARGE = {
    "conv 3": network((28, 28, 32), (3, 3), 3, padding=SAME),
    "conv 3, odd": network((27, 29, 32), (3, 3), 3, padding=SAME),
    "conv 1, table": network((28, 28, 32), (3, 3), 1, "table", padding=SAME),
    "transposed 1": network((14, 14, 64), (5, 5), 1, stride=(2, 2), padding=(1, 1), size=(28, 28)),
    "transposed 3": network((14, 14, 16), (4, 4), 3, stride=(2, 2), padding=(1, 1), size=(27, 28)),
}


@pytest.mark.parametrize("name", LARGE)
def test_results_of_the_network_stay_patches_in_fewer_cycles(name):
    layers, config = LARGE[name], Config()
    program = kept_program(layers, config, Options(effort=0))
    (spec,) = program.outputs
    assert spec.patches is not None
    assert spec.patches.tile
    assert spec.shape == layers.activations[layers.outputs[0]].shape
    without = ("join-outputs", "leave-patches")
    plain = compile_layers(layers, config, Options(effort=0, without=without))
    cycles = [predict_cycles(each.commands, config) for each in (program, plain)]
    assert cycles[0] < 0.6 * cycles[1]
    assert_exact(layers, config, Options(effort=0))
    assert validate_translation(layers, program, Options()) == []


def test_others_read_pixels_that_the_chip_puts_in_place():
    layers = network((14, 14, 64), (5, 5), 1, "frame", stride=(2, 2), padding=(1, 1), size=(28, 28))
    assert changed(layers, Config()) >= {"split-transposed", "fill-blocks"}
    program = kept_program(layers, Config(), Options(effort=0))
    assert all(spec.patches is None for spec in program.outputs)
    plain = compile_layers(layers, Config(), Options(effort=0, without=("join-outputs",)))
    cycles = [predict_cycles(each.commands, Config()) for each in (program, plain)]
    assert cycles[0] < 0.6 * cycles[1]
    assert_exact(layers, Config(), Options(effort=0))
    assert validate_translation(layers, program, Options()) == []


@pytest.mark.parametrize(("outputs", "repeats"), [(1, 16), (2, 10)])
def test_channels_that_are_alike_are_computed_once(outputs, repeats):
    layers = inside(network((24, 24, 2), (7, 7), outputs, "frame", repeats, padding=(3, 3, 3, 3)))
    program = kept_program(layers, Config(), Options(effort=0))
    plain = compile_layers(layers, Config(), Options(effort=0, without=("join-outputs",)))
    cycles = [predict_cycles(each.commands, Config()) for each in (program, plain)]
    assert cycles[0] < 0.4 * cycles[1]
    assert_exact(layers, Config(), Options(effort=0))
    assert validate_translation(layers, program, Options()) == []


def test_channels_of_equal_weights_may_be_requantized_apart():
    layers = inside(network((24, 24, 2), (7, 7), 1, "frame", 16, padding=(3, 3, 3, 3)))
    pool, conv, tail = layers.layers
    bias = np.arange(16, dtype=np.int32) * 1000
    conv = replace(conv, requantization=replace(conv.requantization, bias=bias))
    layers = replace(layers, layers=(pool, conv, tail))
    assert "join-outputs" not in changed(layers, Config())
    assert_exact(layers, Config())


def test_channels_that_a_file_makes_pixels_stay_patches():
    layers = network((12, 11, 32), (3, 3), 12, "pixels", padding=SAME)
    assert changed(layers, Config()) >= {"leave-patches"}
    assert_exact(layers, Config())
    assert changed(layers, Config(), without=("leave-patches",)) >= {"fill-blocks"}
    assert_exact(layers, Config(), Options(without=("leave-patches",)))


def test_uint8_results_stay_patches():
    layers = replace(LARGE["transposed 3"], unsigned=frozenset(("x", "y")))
    program = kept_program(layers, Config(), quick_options())
    x = np.random.default_rng(2).integers(0, 256, layers.activations["x"].shape, np.uint8)
    found = Session(program, "golden").run({"x": x}).outputs["y"]
    due = run_layers(layers, {"x": (x ^ 0x80).view(np.int8)})["y"]
    np.testing.assert_array_equal(found ^ 0x80, due.view(np.uint8))


def test_images_of_a_batch_stay_patches():
    layers = LARGE["transposed 3"]
    program = kept_program(layers, Config(), replace(quick_options(), batch=3))
    x = np.random.default_rng(3).integers(-128, 128, (3, 14, 14, 16), np.int8)
    found = Session(program, "golden").run({"x": x}).outputs["y"]
    for image, due in zip(found, x, strict=True):
        np.testing.assert_array_equal(image, run_layers(layers, {"x": due})["y"])


def test_others_are_left_as_they_are():
    wide = network((28, 28, 32), (3, 3), 9, padding=SAME)
    assert "join-outputs" not in changed(wide, Config())  # most columns compute
    far = network((28, 28, 32), (3, 3), 3, dilation=(2, 2), padding=(2, 2, 2, 2))
    assert "join-outputs" not in changed(far, Config())
    dense = network((28, 28, 32), (1, 1), 3)
    assert "join-outputs" not in changed(dense, Config())  # as many products for each pixel
