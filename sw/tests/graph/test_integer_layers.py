import numpy as np
import pytest

from tpulite.arch.numerics import Rounding
from tpulite.graph.layers import (
    Activation,
    Affine,
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    LayerGraph,
    Lut,
    Pad,
    Pool,
    Requantization,
    Reshape,
)


def record(**fields) -> Requantization:
    return Requantization(**{"multiplier": np.array([1 << 30]), "shift": np.array([0])} | fields)


def conv(**fields) -> Conv:
    values = {"weight": np.zeros((3, 3, 2, 5), np.int8), "requantization": record()}
    values |= {"name": "c", "inputs": ("x",), "output": "y"}
    return Conv(**values | fields)


def wide(**fields) -> Conv:
    values = {"int16": True, "requantization": record(bits=16), "dilation": (1, 2)}
    return conv(**values | fields)


def one(layer, shape, output, dtype="int8") -> LayerGraph:
    images = dict.fromkeys(layer.inputs, Activation(shape)) | {"y": Activation(output, dtype)}
    return LayerGraph("g", (layer,), images, tuple(dict.fromkeys(layer.inputs)), ("y",))


def doubled() -> LayerGraph:
    """Return a table of an input, and two tables that read it."""
    table, ends = np.zeros(256, np.int8), ("x", "a", "b", "y")
    layers = (
        Lut(name="first", inputs=("x",), output="a", table=table),
        Lut(name="second", inputs=("a",), output="b", table=table),
        Lut(name="third", inputs=("a",), output="y", table=table),
    )
    return LayerGraph("g", layers, dict.fromkeys(ends, Activation((1, 1, 2))), ("x",), ("y",))


NAMES = {"name": "l", "inputs": ("x",), "output": "y"}

LEGAL = [
    (conv(), (5, 6, 2), (3, 4, 5), "int8"),
    (conv(stride=(2, 1), padding=(1, 0, 1, 2)), (5, 6, 2), (3, 6, 5), "int8"),
    (conv(dilation=(2, 1), requantization=None), (5, 6, 2), (1, 4, 5), "int32"),
    (wide(), (5, 12, 2), (3, 8, 5), "int8"),
    (wide(stride=(1, 2), padding=(0, 2, 0, 4)), (5, 12, 2), (3, 8, 5), "int8"),
    (
        Depthwise(weight=np.zeros((1, 3, 2), np.int8), requantization=record(), **NAMES),
        (5, 6, 2),
        (5, 4, 2),
        "int8",
    ),
    (Pool(op="max", window=(2, 3), stride=(2, 3), **NAMES), (5, 6, 2), (2, 2, 2), "int8"),
    (Lut(table=np.zeros(256, np.int8), **NAMES), (5, 6, 2), (5, 6, 2), "int8"),
    (
        Affine(gain=np.ones(2, np.int16), requantization=record(), **NAMES),
        (5, 6, 2),
        (5, 6, 2),
        "int8",
    ),
    (Pad(padding=(1, 2, 3, 4), value=-9, **NAMES), (5, 6, 2), (9, 12, 2), "int8"),
    (Reshape(**NAMES), (5, 6, 2), (1, 1, 60), "int8"),
    (Concat(name="l", inputs=("x", "x"), output="y", axis=1), (5, 6, 2), (5, 12, 2), "int8"),
]


@pytest.mark.parametrize(("layer", "shape", "output", "dtype"), LEGAL)
def test_a_layer_computes_the_shape_that_follows_from_its_input(layer, shape, output, dtype):
    one(layer, shape, output, dtype)
    with pytest.raises(ValueError, match=r"(computes|cannot make)"):
        one(layer, shape, (output[0] + 1, *output[1:]), dtype)


def test_an_operand_of_one_pixel_is_the_same_for_all():
    layer = Elementwise(
        name="l",
        inputs=("a", "b"),
        output="y",
        op="add",
        requantization=record(),
        zero_points=(0, 0),
    )
    images = {"a": Activation((4, 5, 3)), "b": Activation((1, 1, 3)), "y": Activation((4, 5, 3))}
    LayerGraph("g", (layer,), images, ("a", "b"), ("y",))
    with pytest.raises(ValueError, match=r"cannot combine \(4, 5, 3\) with \(4, 1, 3\)"):
        LayerGraph("g", (layer,), images | {"b": Activation((4, 1, 3))}, ("a", "b"), ("y",))


REFUSED = [
    (lambda: conv(weight=np.zeros((3, 3, 2, 5))), "weight must be int8 with 4 axes, not float64"),
    (lambda: conv(weight=np.zeros((3, 3, 0, 5), np.int8)), "weight must not be empty"),
    (lambda: conv(stride=(0, 1)), "stride must be two positive numbers, not (0, 1)"),
    (lambda: conv(padding=(0, 0, -1, 0)), "padding must be four numbers from 0 on"),
    (lambda: conv(input_zero_point=128), "input_zero_point must be in -128..127, not 128"),
    (lambda: conv(requantization=record(bias=np.zeros(4, np.int32))), "has 5 channels and"),
    (lambda: wide(requantization=record()), "must requantize to 16 bits"),
    (lambda: wide(input_zero_point=1), "must have zero points of 0"),
    (lambda: wide(stride=(1, 8)), "must have a horizontal stride of at most 7"),
    (lambda: wide(dilation=(1, 3)), "must have an even horizontal dilation"),
    (lambda: wide(padding=(0, 1, 0, 0)), "must have even horizontal padding"),
    (lambda: one(wide(), (5, 13, 2), (3, 8, 5)), "needs pairs of int8, not rows of 13"),
    (lambda: conv(inputs=("x", "b")), "must read 1 activations, not 2"),
    (lambda: record(low=5, high=4), "low 5 must not be above high 4"),
    (lambda: record(multiplier=np.array([-1])), "multiplier must be 0..2147483647, not -1"),
    (lambda: record(shift=np.array([128])), "shift must be -128..127, not 128"),
    (lambda: record(bias=np.zeros(2, np.int64)), "bias must be int32 with 1 axes, not int64[2]"),
    (lambda: record(rounding=np.array([0, 9])), "rounding must be a rule, not [0 9]"),
    (
        lambda: record(multiplier=np.ones(3, np.int64), shift=np.ones(2, np.int64)),
        "arrays must have one length, not [1, 2, 3]",
    ),
    (lambda: Pool(op="min", window=(1, 1), **NAMES), "must be max, average or sum, not 'min'"),
    (lambda: Pool(op="sum", window=(1, 1), **NAMES), "a sum, and nothing else, has a requant"),
    (lambda: Pool(op="average", window=(1, 1), offset=3, **NAMES), "offset must be 0, or 128"),
    (lambda: Lut(table=np.zeros(255, np.int8), **NAMES), "must have 256 entries, not 255"),
    (lambda: Pad(padding=(0, 0, 0, 0), value=200, **NAMES), "value must be in -128..127, not 200"),
    (lambda: Concat(axis=3, **NAMES), "axis must be 0, 1 or 2, not 3"),
    (lambda: Activation((0, 1, 1)), "three positive extents, not (0, 1, 1)"),
    (lambda: Activation((1, 1, 1), "uint8"), "must be int8 or int32, not uint8"),
    (lambda: one(conv(), (2, 6, 2), (1, 4, 5)), "window of 3 is larger than the padded"),
    (lambda: one(conv(), (5, 6, 3), (3, 4, 5)), "has weights of 2 channels, not 3"),
    (
        lambda: one(
            Pool(op="max", window=(2, 2), padding=(2, 0, 0, 0), **NAMES), (3, 3, 1), (4, 2, 1)
        ),
        "a window must not lie in padding",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_nonsense_is_refused_with_the_offending_value(make, message):
    with pytest.raises(ValueError) as error:
        make()
    assert message in str(error.value)


def test_images_are_computed_once_and_before_they_are_read():
    images = {name: Activation((2, 2, 1)) for name in "xyz"}
    table = np.zeros(256, np.int8)
    a = Lut(name="a", inputs=("x",), output="y", table=table)
    b = Lut(name="b", inputs=("y",), output="z", table=table)
    assert LayerGraph("g", (a, b), images, ("x",), ("z",)).macs() == {}
    with pytest.raises(ValueError, match="needs 'y', which is not there yet"):
        LayerGraph("g", (b, a), images, ("x",), ("z",))
    with pytest.raises(ValueError, match="Activation 'y' is computed twice"):
        again = Lut(name="c", inputs=("x",), output="y", table=table)
        LayerGraph("g", (a, again), images, ("x",), ("y",))
    with pytest.raises(ValueError, match="name must be unique"):
        LayerGraph(
            "g", (a, Lut(name="a", inputs=("x",), output="z", table=table)), images, ("x",), ()
        )
    with pytest.raises(ValueError, match="Nothing computes the output 'z'"):
        LayerGraph("g", (a,), images, ("x",), ("z",))


def test_macs_are_counted_of_products():
    assert one(conv(), (5, 6, 2), (3, 4, 5)).macs() == {"c": 3 * 4 * 5 * 9 * 2}


def test_channels_may_round_each_in_its_own_way():
    rule = record(rounding=np.array([Rounding.RUY] * 8 + [Rounding.TFLITE], np.int64))
    assert rule.channels == 9
    assert rule.roundings == {Rounding.TFLITE, Rounding.RUY}


def test_a_graph_knows_the_only_reader_of_an_activation():
    graph = doubled()
    assert graph.readers["a"] == graph.layers[1:]
    assert graph.sole_reader("x") is graph.layers[0]
    assert graph.sole_reader("a") is None
    assert graph.makers["a"] is graph.layers[0]


def test_other_layers_leave_out_activations_that_nothing_names():
    graph = doubled()
    assert list(graph.with_layers(graph.layers[::2]).activations) == ["x", "a", "y"]
    with pytest.raises(ValueError, match="'y'"):
        graph.with_layers(graph.layers[:2])
