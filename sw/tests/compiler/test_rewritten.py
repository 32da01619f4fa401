"""The list of passes: each is verified, and what does not verify is left out."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler import passes
from tpulite.compiler.options import Options
from tpulite.compiler.passes import (
    PASSES,
    REWRITES,
    WITHOUT,
    Pass,
    PassLeftOut,
    rewrite,
)
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.state import State
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.models import MLP_DIGITS
from tpulite.runtime.session import Session
from tpulite_testing.oracles.plain_layers import random_requantization
from tpulite_testing.regress import thinned

pytest_plugins = ("tpulite_testing.command_line",)


def plain_network(pixels, channels):
    """Return conv -> conv stride 2 -> dense, all padded as SAME is."""
    rng = np.random.default_rng(pixels * channels)
    half = -(-pixels // 2)
    layers, shape = [], (pixels, pixels, 1)
    images = {"x": Activation(shape)}
    for source, output, kernel, stride, outputs in (
        ("x", "a", 3, 1, channels),
        ("a", "b", 2, 2, channels),
        ("b", "c", half, 1, 10),
    ):
        extent = images[source].shape[0]
        missing = 0 if output == "c" else (-(-extent // stride) - 1) * stride + kernel - extent
        before, behind = max(0, missing) // 2, -(-max(0, missing) // 2)
        depth = images[source].shape[2]
        layer = Conv(
            name=output,
            inputs=(source,),
            output=output,
            weight=rng.integers(-127, 128, (kernel, kernel, depth, outputs), np.int8),
            requantization=random_requantization(rng, outputs, 30_000),
            input_zero_point=int(rng.integers(-128, 128)),
            stride=(stride, stride),
            padding=(before, before, behind, behind),
        )
        images[output] = layer._infer(images[source])
        layers.append(layer)
    return LayerGraph("plain", tuple(layers), images, ("x",), ("c",))


EVERY = [
    (pixels, channels, size)
    for pixels in range(16, 33)
    for channels in range(3, 9)
    for size in (4, 8, 16, 32)
]


@pytest.mark.parametrize(
    ("pixels", "channels", "size"),
    thinned(
        EVERY,
        *[(pixels, 3 + i % 6, 4 << i % 4) for i, pixels in enumerate(range(16, 33))],
        *[(28, channels, 16) for channels in (5, 8)],
        reason="each size and number of channels is tried",
    ),
)
def test_strided_convolutions_behind_each_other_compute_their_layers(pixels, channels, size):
    layers, config = plain_network(pixels, channels), Config(array_size=size)
    x = np.random.default_rng(0).integers(-128, 128, (pixels, pixels, 1), np.int8)
    program = compile_layers(layers, config, Options(effort=0))
    outputs = Session(program, "golden").run({"x": x}).outputs
    np.testing.assert_array_equal(outputs["c"], run_layers(layers, {"x": x})["c"])


def test_both_pairs_of_three_layers_are_joined():
    network = rewrite(State.of(plain_network(24, 4), Config(), Options()))
    shapes = [network.layers.activations[name].shape for name in "ab"]
    assert shapes[0][2] > 4 and shapes[1][2] > 4
    assert "join-neighbors" in network.changed


def test_a_network_knows_which_passes_have_changed_it():
    layers, config = plain_network(16, 64), Config(array_size=4)
    assert rewrite(State.of(layers, config, Options())).changed == ("pack-patches",)
    assert rewrite(State.of(layers, config, Options(dense_mode=False))).changed == ()
    assert len({each.name for each in PASSES}) == len(PASSES)


@pytest.mark.parametrize("name", WITHOUT)
def test_results_are_the_same_bits_without_any_one_pass_or_mechanism(name):
    layers, config = plain_network(16, 5), Config(array_size=4, ub_rows=256)
    options = Options(effort=900, without=(name,))
    x = np.random.default_rng(0).integers(-128, 128, (16, 16, 1), np.int8)
    outputs = Session(compile_layers(layers, config, options), "golden").run({"x": x}).outputs
    np.testing.assert_array_equal(outputs["c"], run_layers(layers, {"x": x})["c"])


def test_a_pass_that_is_left_out_changes_nothing():
    layers, config = plain_network(16, 64), Config(array_size=4)
    options = Options(without=("pack-patches",))
    assert rewrite(State.of(layers, config, options)).changed == ()
    with pytest.raises(ValueError, match=r"^pack-patch: no .* \(did you mean pack-patches"):
        compile_layers(layers, config, Options(without=("pack-patch",)))


def narrower(network):
    """Return a network whose last layer has another output than its reader believes."""
    layers = network.layers
    images = {**layers.activations, "a": Activation((16, 16, 3))}
    return replace(network, layers=replace(layers, activations=images))


def without_output(network):
    return replace(network, layers=replace(network.layers, outputs=("b",)))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(narrower, "Layer 'a' computes"), (without_output, "outputs must be")],
)
def test_a_pass_whose_result_does_not_verify_is_an_error_in_tests(monkeypatch, spoil, reason):
    monkeypatch.setattr(passes, "REWRITES", (*REWRITES, Pass("spoil layers", spoil)))
    layers = plain_network(16, 5)
    with pytest.raises(PassLeftOut, match=f"without the pass 'spoil layers': {reason}"):
        rewrite(State.of(layers, Config(), Options()))


@pytest.mark.filterwarnings("default::tpulite.compiler.passes.PassLeftOut")
def test_a_pass_whose_result_does_not_verify_is_left_out_with_a_line(tpulite, monkeypatch):
    def spoil(network):
        return replace(network, layers=replace(network.layers, outputs=()))

    expected = tpulite("compile", MLP_DIGITS, "-o", "good.tpulite")
    assert expected[0] == 0
    monkeypatch.setattr(passes, "REWRITES", (Pass("spoil layers", spoil), *REWRITES))
    code, _, err = tpulite("compile", MLP_DIGITS, "-o", "other.tpulite", "--no-cache")
    assert code == 0
    (line,) = err.splitlines()
    assert line.startswith("tpulite: ") and "without the pass 'spoil layers': outputs must" in line
