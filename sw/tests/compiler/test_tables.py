"""Chains of functions of one activation become one table, and the results stay."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.tables import tabulate_chains
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Affine, Conv, Elementwise, LayerGraph, Lut
from tpulite.graph.requantization import Requantization
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_testing.quick_options import quick_options

BYTES = np.arange(-128, 128, dtype=np.int8)


def record(rng, channels=1):
    return Requantization(
        multiplier=rng.integers(1 << 30, (1 << 31) - 1, channels),
        shift=rng.integers(-7, 1, channels),
        bias=rng.integers(-900, 900, channels, np.int32),
        zero_point=int(rng.integers(-20, 20)),
    )


class Network:
    """Layers of functions, added one by one; activations have the names of their layers."""

    def __init__(self, seed=0, shape=(16, 8, 2), **constants):
        self.rng, self.layers, self.shape = np.random.default_rng(seed), [], shape
        self.constants = constants

    def lut(self, name, source):
        table = self.rng.integers(-128, 128, 256, np.int8)
        self.layers.append(Lut(name=name, inputs=(source,), output=name, table=table))

    def pair(self, name, op, *sources):
        more = {"multipliers": (1 << 30, 1 << 29), "shifts": (0, 1)} if op != "mul" else {}
        zeros = tuple(map(int, self.rng.integers(-9, 9, 2)))
        ends = {"name": name, "inputs": sources, "output": name, "op": op, "zero_points": zeros}
        self.layers.append(Elementwise(**ends, requantization=record(self.rng), **more))

    def affine(self, name, source, *, alike=True):
        gain = np.full(self.shape[2], 3, np.int16)
        gain[-1] += not alike
        ends = {"name": name, "inputs": (source,), "output": name, "gain": gain}
        self.layers.append(Affine(**ends, requantization=record(self.rng)))

    def graph(self, *outputs, inputs=("x",)):
        names = (*inputs, *(layer.output for layer in self.layers))
        shapes = {name: Activation(self.shape) for name in names}
        constants = {name: np.asarray(value, np.int8) for name, value in self.constants.items()}
        shapes |= {name: Activation(value.shape) for name, value in constants.items()}
        return LayerGraph("net", tuple(self.layers), shapes, inputs, outputs, constants)


def assert_same(layers, short):
    """Compare results for every byte."""
    shape = layers.activations["x"].shape
    x = np.resize(BYTES, shape)
    old, new = (run_layers(each, {"x": x}) for each in (layers, short))
    for name in layers.outputs:
        np.testing.assert_array_equal(new[name], old[name])


def silu():
    net = Network()
    net.lut("sigmoid", "x")
    net.pair("silu", "mul", "x", "sigmoid")
    return net.graph("silu")


def hard_swish():
    net = Network(three=np.full((1, 1, 2), 3), sixth=np.full((1, 1, 2), 21))
    net.pair("plus", "add", "x", "three")
    net.lut("clamp", "plus")
    net.pair("product", "mul", "x", "clamp")
    net.pair("swish", "mul", "product", "sixth")
    return net.graph("swish")


def softplus():
    net = Network()
    net.lut("exp", "x")
    net.affine("more", "exp")
    net.lut("log", "more")
    net.pair("less", "sub", "log", "x")
    return net.graph("less")


@pytest.mark.parametrize("make", [silu, hard_swish, softplus])
def test_functions_as_exporters_spell_them_are_one_table(make):
    layers = make()
    short = tabulate_chains(layers)
    (table,) = short.layers
    assert isinstance(table, Lut) and table.inputs == ("x",)
    assert short.activations.keys() == {"x", *layers.outputs} and not short.constants
    assert_same(layers, short)
    program = kept_program(layers, Config(), quick_options())
    x = np.resize(BYTES, layers.activations["x"].shape)
    (name,) = layers.outputs
    outputs = Session(program, "golden").run({"x": x}).outputs
    np.testing.assert_array_equal(outputs[name], run_layers(layers, {"x": x})[name])
    assert validate_translation(layers, program, quick_options()) == []


def test_what_others_read_stays():
    layers = replace(silu(), outputs=("silu", "sigmoid"))
    short = tabulate_chains(layers)
    assert [layer.inputs for layer in short.layers] == [("x",), ("x",)]
    assert_same(layers, short)


def two_inputs():
    net = Network()
    net.lut("a", "x")
    net.pair("b", "add", "a", "y")
    return net.graph("b", inputs=("x", "y"))


def channels_that_differ():
    net = Network()
    net.affine("a", "x", alike=False)
    net.lut("b", "a")
    return net.graph("b")


def constant_that_differs():
    net = Network(c=np.array([[[1, 2]]]))
    net.pair("a", "add", "x", "c")
    net.lut("b", "a")
    return net.graph("b")


def single_layers():
    net = Network()
    net.pair("a", "mul", "x", "x")
    net.lut("b", "x")
    return net.graph("a", "b")


@pytest.mark.parametrize(
    "make", [two_inputs, channels_that_differ, constant_that_differs, single_layers]
)
def test_others_are_left_as_they_are(make):
    layers = make()
    assert tabulate_chains(layers) is layers


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 30), count=st.integers(2, 8))
def test_drawn_functions_of_one_activation_are_a_table_each(seed, count):
    rng = np.random.default_rng(seed)
    net = Network(seed, c=np.full((1, 1, 2), rng.integers(-128, 128)))
    names = ["x"]
    for number in range(count):
        name, kind = f"y{number}", rng.choice(["lut", "affine", "add", "sub", "mul"])
        source, other = rng.choice(names), rng.choice([*names, "c"])
        if kind in ("lut", "affine"):
            getattr(net, kind)(name, source)
        else:
            net.pair(name, kind, source, other)
        names.append(name)
    layers = net.graph(names[-1], names[1])
    short = tabulate_chains(layers)
    assert len(short.layers) <= 2
    assert_same(layers, short)


def test_silu_runs_beside_the_convolution_before_it():
    """The convolution alone takes 4,096 cycles."""
    net = Network(shape=(32, 32, 64))
    net.lut("sigmoid", "conv")
    net.pair("silu", "mul", "conv", "sigmoid")
    rest = net.graph("silu", inputs=("conv",))
    weight = net.rng.integers(-128, 128, (1, 1, 8, 64), np.int8)
    conv = Conv(
        name="conv", inputs=("x",), output="conv", weight=weight, requantization=record(net.rng)
    )
    layers = replace(
        rest,
        layers=(conv, *rest.layers),
        activations={**rest.activations, "x": Activation((32, 32, 8))},
        inputs=("x",),
    )
    program = kept_program(layers, Config(), Options())
    assert predict_cycles(program.commands, Config()) <= 5_700
