import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.numerics import Rounding
from tpulite.compiler import compile_pair
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.graph.layers import Activation, LayerGraph, MatMul, Requantization
from tpulite_testing.drawn.plain_graphs import GraphBuilder

CONFIG = Config(ub_rows=256)
PLAIN = Requantization(multiplier=np.array([1 << 30]), shift=np.array([1]), rounding=Rounding.AWAY)


@pytest.fixture(scope="module")
def layers():
    """Return a network with layers of both engines."""
    builder = GraphBuilder((8, 10, 16))
    builder.conv("x", 32, 3, name="a", padding=(1, 1, 1, 1))
    builder.pool("a", name="p", stride=(2, 2))
    builder.conv("p", 16, 1, name="b")
    builder.lut("b", name="t")
    builder.add("b", "t", name="s")
    return builder.graph("t", "s")  # or both would be one function of `b`


def test_a_program_says_what_each_layer_computes_and_by_which_commands(layers):
    program = compile_layers(layers, CONFIG, Options(batch=2))
    assert program.config == CONFIG and program.resident == ()
    matrices = {"a": 3 * 3 * 16, "b": 32}
    pixels = {"a": 2 * 8 * 10}
    channels = {"a": 32, "p": 32}
    expected = [
        (name, pixels.get(name, 2 * 4 * 5), matrices.get(name, 0), channels.get(name, 16))
        for name in ("a", "p", "b", "t", "s")
    ]
    assert [(x.name, x.m, x.k, x.n) for x in program.layers] == expected
    assert all(isinstance(layer.k, int) for layer in program.layers)
    for layer in program.layers:
        mine = {program.commands[number].opcode for number in layer.commands}
        assert mine == {Opcode.CONV if layer.k else Opcode.VECTOR}
        assert list(layer.commands) == sorted(layer.commands)
        assert list(layer.others) == sorted(layer.others)
    numbers = [n for layer in program.layers for n in (*layer.commands, *layer.others)]
    assert sorted(numbers) == list(range(len(program.commands) - 1))


def test_what_prepares_a_product_does_not_compute_it():
    images = {"a": (2, 20, 32), "b": (2, 32, 16), "y": (2, 20, 16)}
    product = MatMul(
        name="y", inputs=("a", "b"), output="y", requantization=PLAIN, zero_points=(1, 9)
    )
    activations = {name: Activation(shape) for name, shape in images.items()}
    network = LayerGraph("product", (product,), activations, ("a", "b"), ("y",))
    program = compile_layers(network, Config())
    (layer,) = program.layers
    assert (layer.m, layer.k, layer.n) == (40, 32, 16)
    assert {program.commands[number].opcode for number in layer.commands} == {Opcode.CONV}
    assert Opcode.VECTOR in {program.commands[number].opcode for number in layer.others}


def test_a_program_keeps_the_rows_that_an_earlier_one_has_left():
    builder = GraphBuilder((4, 4, 16))
    cold, warm = compile_pair(builder.graph(builder.conv("x", 16, name="a")), Config(), Options())
    ((start, stop),) = warm.resident
    assert 0 <= start < stop <= Config().ub_rows
    assert cold.commands != warm.commands


def test_a_single_element_that_is_looked_up_is_not_multiplied():
    builder = GraphBuilder((1, 1, 1))
    (layer,) = compile_layers(builder.graph(builder.lut("x", name="t")), Config()).layers
    assert (layer.m, layer.k, layer.n) == (1, 0, 1)
