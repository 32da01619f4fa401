"""Sums with a constant for each channel as products by channel: same bytes, fewer cycles."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import quantize_multiplier
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.addends import scale_addends
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Affine, Elementwise, LayerGraph, Requantization
from tpulite.runtime.session import Session
from tpulite_testing.drawn.layer_networks import LayerNetwork
from tpulite_testing.quick_options import quick_options

CONFIG, QUICK = Config(), quick_options()
PLAIN = quick_options(without=("scale-addends",))


def summed(channels: int, scales=(0.05, 0.031, 0.047), op: str = "add", size: int = 16):
    """Return a network that adds a constant by channel to its input, as LiteRT does."""
    net = LayerNetwork(0, channels, size=size)
    largest = 2 * max(scales[:2])
    parts = [quantize_multiplier(scale / largest) for scale in scales[:2]]
    multiplier, shift = quantize_multiplier(largest / ((1 << 20) * scales[2]))
    record = Requantization(multiplier=np.array([multiplier]), shift=np.array([shift]),
                            zero_point=7, low=-100)  # fmt: skip
    net.images["c"] = Activation((1, 1, channels))
    fields = {"multipliers": tuple(m for m, _ in parts), "shifts": tuple(-s for _, s in parts)}
    zeros = {"zero_points": (-3, 9), "requantization": record}
    y = net.add(Elementwise, "x", "c", op=op, scaling=Scaling.TFLITE, **fields, **zeros)
    constants = {"c": net.rng.integers(-128, 128, (1, 1, channels), np.int8)}
    return LayerGraph("net", tuple(net.layers), net.images, ("x",), (y,), constants)


def every_byte(graph: LayerGraph) -> np.ndarray:
    height, width, channels = graph.activations["x"].shape
    pixels = np.arange(height * width, dtype=np.uint8).astype(np.int8)
    return np.repeat(pixels, channels).reshape(height, width, channels)


@pytest.mark.parametrize("op", ["add", "sub"])
@pytest.mark.parametrize(
    "scales",
    [(0.05, 0.031, 0.047), (0.05, 0.05, 0.05), (0.2, 0.0013, 0.0317), (0.004, 0.3, 0.21)],
    ids=["usual", "alike", "steep", "flat"],
)
def test_every_byte_of_every_channel_is_the_sum(scales, op):
    graph = summed(256, scales, op)
    after, x = scale_addends(graph, CONFIG), {"x": every_byte(graph)}
    assert [type(layer) for layer in after.layers] == [Affine]
    found, wanted = (run_layers(each, x)[graph.outputs[0]] for each in (after, graph))
    np.testing.assert_array_equal(found, wanted)


def test_sums_stay_where_their_halves_go_both_ways():
    graph = summed(256, (0.2, 0.001, 0.03))
    assert scale_addends(graph, CONFIG) is graph


def test_sums_of_few_pixels_stay():
    graph = summed(64, size=2)
    assert scale_addends(graph, CONFIG) is graph


@pytest.mark.parametrize("size", [3, 5, 7])
def test_products_take_no_more_cycles_than_sums(size):
    graph = summed(100, size=size)
    programs = [compile_layers(graph, CONFIG, options) for options in (QUICK, PLAIN)]
    new, old = (predict_cycles(program.commands, CONFIG) for program in programs)
    assert new <= old
    assert (new < old) == (size == 7)


def test_sums_with_other_constants_stay():
    graph = summed(16)
    images = {**graph.activations, "c": graph.activations["x"]}
    every = {"c": np.broadcast_to(graph.constants["c"], (16, 16, 16)).copy()}
    whole = LayerGraph("net", graph.layers, images, ("x",), graph.outputs, every)
    assert scale_addends(whole, CONFIG) is whole


@pytest.mark.parametrize("config", [CONFIG, Config(array_size=4, ub_rows=1024)], ids=["16", "4"])
def test_programs_are_translations_in_fewer_cycles(config):
    graph = summed(48)
    programs = [compile_layers(graph, config, options) for options in (QUICK, PLAIN)]
    assert validate_translation(graph, programs[0], QUICK) == []
    x = every_byte(graph)
    (found,), (wanted,) = (Session(program).run({"x": x}).outputs.values() for program in programs)
    np.testing.assert_array_equal(found, wanted)
    new, old = (predict_cycles(program.commands, config) for program in programs)
    assert new < 0.9 * old
