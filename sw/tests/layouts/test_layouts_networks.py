"""Weights of networks as the BM1684X reads them: nothing lost, and they compute the network."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulite import layouts
from tpulite.layouts import Fold, Geometry
from tpulite.models import CNN_DIGITS
from tpulite.runtime.model import Model
from tpulite_testing.graphs.float_graphs import GraphBuilder
from tpulite_testing.graphs.weighted_graphs import Weighted, weighted_graph

VENDOR = Path(__file__).parents[1] / "layout/data/bm1684x_int8_layout.npz"


def assert_same_layers(one, other):
    """Compare layers field by field, weights bit by bit."""
    assert len(one.layers) == len(other.layers)
    for a, b in zip(one.layers, other.layers, strict=True):
        assert (a.name, a.kind, a.source, a.group) == (b.name, b.kind, b.source, b.group)
        assert a.spec == b.spec
        assert_same_arrays({"filter": a.filter}, {"filter": b.filter})
        assert (a.bias is None) == (b.bias is None)
        if a.bias is not None:
            assert_same_arrays({"bias": a.bias}, {"bias": b.bias})
        assert (a.requant is None) == (b.requant is None)
        if a.requant is not None:
            assert_same_arrays(asdict(a.requant), asdict(b.requant))


def value(graph, name):
    """Return a constant of a graph."""
    data = graph.tensors[name].data
    assert data is not None
    return data


def assert_same_arrays(one, other):
    assert one.keys() == other.keys()
    for name, values in one.items():
        x, y = np.asarray(values), np.asarray(other[name])
        assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()), name


@st.composite
def drawn_layers(draw):
    op = draw(st.sampled_from(["conv", "depthwise", "dense"]))
    dtype = draw(st.sampled_from(["int8", "uint8", "float32"]))
    group = draw(st.integers(1, 3)) if op != "dense" else 1
    zero = st.integers(0, 255) if dtype == "uint8" else st.integers(-128, 127)
    return Weighted(
        op=op,
        oc=group * draw(st.integers(1, 40)),
        ic=draw(st.integers(1, 20)),
        kernel=draw(st.tuples(st.integers(1, 4), st.integers(1, 4))),
        group=group,
        bias=draw(st.booleans()),
        dtype=dtype,
        zero_points=(draw(zero), draw(st.sampled_from([0, 3])), draw(zero)),
    )


@settings(max_examples=30)
@given(
    layers=st.lists(drawn_layers(), min_size=1, max_size=3),
    machine=st.tuples(st.integers(1, 20), st.integers(1, 10), st.integers(1, 20)),
    mode=st.sampled_from([None, 0, 1, 2, 3]),
    weights=st.sampled_from(layouts.FLOAT_TYPES),
    seed=st.integers(0, 1000),
)
def test_networks_survive_the_round_trip(layers, machine, mode, weights, seed, tmp_path_factory):
    lanes, half, lane_bytes = machine
    geometry = Geometry(lanes=lanes, parallel=2 * half, lane_bytes=lane_bytes)
    floats = any(layer.dtype == "float32" for layer in layers)
    layout = layouts.lay_out(
        weighted_graph(layers, seed),
        geometry=geometry,
        optimize_3ic=mode,
        weights=weights if floats else None,
    )
    folder = tmp_path_factory.getbasetemp() / "drawn"
    files = layouts.write(layout, folder)
    found = layouts.read(folder)
    assert_same_layers(layout, found)
    before = [file.read_bytes() for file in files]
    layouts.write(found, folder)
    assert [file.read_bytes() for file in files] == before


def test_filter_and_bias_are_those_of_the_network():
    graph = weighted_graph(
        [
            Weighted(op="conv", oc=6, ic=2, group=3, zero_points=(7, 0, 0)),
            Weighted(op="depthwise", oc=6, group=2, bias=False),
            Weighted(op="dense", oc=6, ic=9, dtype="uint8", zero_points=(128, 9, 3)),
        ]
    )
    layout = layouts.lay_out(graph)
    ordered = [
        value(graph, "w0").transpose(0, 3, 1, 2),
        value(graph, "w1").transpose(2, 0, 1)[:, None],
        value(graph, "w2")[:, :, None, None],
    ]
    for layer, values in zip(layout.layers, ordered, strict=True):
        np.testing.assert_array_equal(layer.filter, values)
        assert layer.filter.dtype == values.dtype
    assert layout["depthwise_y1"].bias is None and not layout["depthwise_y1"].spec.has_bias
    np.testing.assert_array_equal(layout["conv_y0"].bias, value(graph, "b0"))
    assert [layer.group for layer in layout.layers] == [3, 3, 1]
    assert not any(layer.spec.depthwise for layer in layout.layers)
    assert "biases are laid out with the input's zero point" in str(layout)


def machine_result(layer, x, padding):
    """Compute a layer from its coefficients as the machine does, one channel after the other."""
    found = layouts.unpack_coefficients(layer.tensors()["coefficients"], layer.spec)
    rule, spec = layer.requant, layer.spec
    top, left, bottom, right = padding
    around = ((top, bottom), (left, right), (0, 0))
    x = np.pad(x.astype(np.int64), around, constant_values=rule.input_zero_point)
    values = found.filter.view(layer.filter.dtype).astype(np.int64) - rule.filter_zero_point
    rows, columns = x.shape[0] - spec.kh + 1, x.shape[1] - spec.kw + 1
    y = np.zeros((rows, columns, spec.oc), np.int64)
    for c in range(spec.oc):
        first = c // (spec.oc // layer.group) * spec.ic
        for i, dy, dx in np.ndindex(spec.ic, spec.kh, spec.kw):
            y[..., c] += x[dy : dy + rows, dx : dx + columns, first + i] * values[c, i, dy, dx]
    if found.bias is not None:
        y += found.bias
    half = np.int64(1) << (found.rshift.astype(np.int64) - 1)
    y = (y * found.multiplier + half) >> found.rshift
    return np.clip(y + found.zero_point, rule.low, rule.high)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_coefficients_compute_what_the_network_does(dtype):
    zeros = {"int8": (-11, 0, 5), "uint8": (130, 9, 100)}[dtype]
    graph = weighted_graph(
        [
            Weighted(oc=9, ic=5, dtype=dtype, zero_points=zeros, activation="relu6"),
            Weighted(oc=6, ic=4, group=2, bias=False, dtype=dtype, zero_points=zeros),
            Weighted(op="depthwise", oc=7, dtype=dtype, zero_points=zeros),
            Weighted(op="depthwise", oc=8, group=2, dtype=dtype, zero_points=zeros),
            Weighted(op="dense", oc=5, ic=40, dtype=dtype, zero_points=zeros),
        ]
    )
    layout = layouts.lay_out(graph, geometry=Geometry(lanes=4, parallel=4, lane_bytes=8))
    rng, low = np.random.default_rng(5), np.iinfo(dtype).min
    shapes = {name: graph.tensors[name].shape for name in graph.inputs}
    inputs = {x: rng.integers(low, low + 256, s).astype(dtype) for x, s in shapes.items()}
    due = Model.load(graph, exact="bm1684x").reference(inputs)
    for i, layer in enumerate(layout.layers):
        image = inputs[f"x{i}"].reshape(*(shapes[f"x{i}"][1:-1] or (1, 1)), -1)
        padding = (0, 0, 0, 0) if layer.kind == "dense" else (1, 0, 1, 0)
        y = machine_result(layer, image, padding)
        np.testing.assert_array_equal(y.reshape(-1), due[f"y{i}"].reshape(-1), layer.name)
        assert len(np.unique(y)) > 3


@pytest.mark.parametrize(
    ("case", "mode"), [("c128", 0), ("g_first32_3", 3), ("g_oc100_ic20", 1), ("g_dw96", 0)]
)
def test_a_network_of_the_vendors_weights_has_the_vendors_bytes(case, mode):
    """All but the scales, which are rounded to 31 bits here and to fewer there."""
    with np.load(VENDOR) as file:
        values, bias = file[f"{case}_filter"], file[f"{case}_bias"]
        merged = file[f"{case}_merged"]
    oc, ic, kh, kw = values.shape
    depthwise = case == "g_dw96"
    weight = values[:, 0].transpose(1, 2, 0) if depthwise else values.transpose(0, 2, 3, 1)
    b = GraphBuilder()
    x = b.input("x", (1, kh, kw, oc if depthwise else ic), (0.1, 0))
    constants = b.constant("w", np.ascontiguousarray(weight), (0.01, 0)), b.constant("b", bias)
    attributes = {"multiplier": 1} if depthwise else {"group": 1}
    attributes |= {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0)}
    op = "depthwise" if depthwise else "conv"
    b.node(op, (x, *constants), "y", (1, 1, 1, oc), (0.3, 0), activation="none", **attributes)
    (layer,) = layouts.lay_out(b.build("y")).layers
    start = layouts.Manifest.of(layer.spec).w4
    image = layer.tensors()["coefficients"][0, :, 0]
    assert layer.spec.fold == mode and image.shape == merged.shape
    np.testing.assert_array_equal(image[:, start:], merged[:, start:])


def test_a_trained_network_is_laid_out_whole():
    layout = layouts.lay_out(CNN_DIGITS)
    graph = Model.load(CNN_DIGITS).graph
    products = [node.name for node in graph.nodes if node.op in ("conv", "depthwise", "dense")]
    assert [layer.name for layer in layout.layers] == products
    assert [layer.spec.fold for layer in layout.layers] == [Fold.BOTH, *[Fold.NONE] * 4]
    assert {each.source: each.reason for each in layout.left_out} == {
        "ADD": "",
        "AVERAGE_POOL_2D": "",
    }
    assert layout.nbytes == sum(layouts.Manifest.of(x.spec).nbytes for x in layout.layers)


def test_a_mode_is_used_where_it_fits():
    graph = weighted_graph(
        [
            Weighted(ic=5, kernel=(3, 4)),
            Weighted(ic=6, kernel=(3, 4)),
            Weighted(ic=4, kernel=(1, 1)),
            Weighted(ic=2, group=4),
            Weighted(op="depthwise"),
        ]
    )
    for mode, due in ((0, [0, 0, 0, 0, 0]), (2, [2, 2, 0, 0, 0]), (3, [3, 0, 0, 0, 0])):
        layout = layouts.lay_out(graph, optimize_3ic=mode)
        assert [layer.spec.fold for layer in layout.layers] == due
    automatic = layouts.lay_out(graph)
    assert [layer.spec.fold for layer in automatic.layers] == [3, 2, 0, 0, 0]


def test_depthwise_is_one_channel_a_group_and_more_than_one():
    layout = layouts.lay_out(
        weighted_graph(
            [
                Weighted(op="depthwise", oc=1),
                Weighted(op="conv", oc=4, ic=1, group=4),
                Weighted(op="conv", oc=4, ic=2, group=4),
                Weighted(op="depthwise", oc=4, group=2),
            ]
        )
    )
    assert [layer.kind for layer in layout.layers] == ["conv", "depthwise", "conv", "conv"]
    assert [layer.group for layer in layout.layers] == [1, 4, 4, 2]
    assert [layer.spec.fold for layer in layout.layers] == [3, 0, 0, 0]


def test_steps_are_those_of_the_document():
    graph = weighted_graph(
        [Weighted(oc=128, ic=64), Weighted(oc=128, ic=64, dtype="float32", bias=False)]
    )
    layout = layouts.lay_out(graph, weights="bf16")
    whole, floats = (layer.steps() for layer in layout.layers)
    assert {name: (values.dtype.name, values.shape) for name, values in whole.items()} == {
        "step1/filter": ("int8", (128, 64, 3, 3)),
        "step1/bias": ("int32", (128,)),
        "step1/requant": ("int32", (1, 128, 1, 3)),
        "step2/filter": ("int8", (1, 128, 1, 576)),
        "step3/filter": ("int8", (1, 64, 1, 1152)),
        "step3/bias": ("int8", (1, 64, 1, 8)),
        "step3/requant": ("int8", (1, 64, 1, 76)),
        "step4/coefficients": ("int8", (1, 64, 1, 1280)),
    }
    parts = [whole[f"step3/{part}"] for part in ("requant", "bias", "filter")]
    merged = np.zeros((1, 64, 1, 1280), np.int8)
    for part, start in zip(parts, (0, 76, 128), strict=True):
        merged[..., start : start + part.shape[-1]] = part
    np.testing.assert_array_equal(merged, whole["step4/coefficients"])
    assert {name: (values.dtype.name, values.shape) for name, values in floats.items()} == {
        "step1/filter": ("uint16", (128, 64, 3, 3)),
        "step2/filter": ("uint16", (1, 128, 1, 576)),
    }


def test_weights_of_float16_stay_so_unless_another_type_is_asked_for():
    b = GraphBuilder()
    w = b.constant("w", np.float16([[1, 0.1, -2], [3, 65504, 1e-7]]))
    bias = b.constant("b", np.float16([0.5, 0.1]))
    inputs = b.input("x", (1, 3), dtype="float16"), w, bias
    graph = b.build(b.node("dense", inputs, "y", (1, 2), dtype="float16", activation="none"))
    for weights, due in ((None, "float16"), ("f32", "float32"), ("bf16", "float32")):
        layer = layouts.lay_out(graph, weights=weights).layers[0]
        assert layer.filter.dtype == due
        exact = value(graph, "w").astype(np.float32)
        assert np.array_equal(layer.filter[:, :, 0, 0], exact) == (weights != "bf16")
        assert layer.bias is not None
        np.testing.assert_array_equal(layer.bias, value(graph, "b").astype(np.float32))


def test_float_weights_are_rounded_to_nearest_or_refused():
    graph = weighted_graph([Weighted(dtype="float32")])
    values = value(graph, "w0").transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(layouts.lay_out(graph).layers[0].filter, values)
    half = layouts.lay_out(graph, weights="f16").layers[0]
    np.testing.assert_array_equal(half.filter, values.astype(np.float16))
    value(graph, "w0")[0, 0, 0, 0] = 65520  # halfway to what would be the next float16
    assert layouts.lay_out(graph, weights="bf16").layers[0].filter.flat[0] == 65536
    with pytest.raises(ValueError, match=r"^conv_y0: the weight 65520 overflows f16$"):
        layouts.lay_out(graph, weights="f16")


def test_what_is_left_out_is_named_with_the_reason():
    b = GraphBuilder()
    x = b.input("x", (1, 4, 4, 3), (0.5, 0))
    w = b.constant("w", np.ones((2, 3, 3, 3), np.int8), (0.5, 0))
    b.input("long", (1, 3), (0.5, 0), dtype="int16")
    d = b.constant("d", np.ones((2, 3), np.int8), (0.5, 0))
    window = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "activation": "none"}
    y = b.node("conv", (x, w), "y", (1, 2, 2, 2), (0.5, 0), group=1, **window)
    u = b.constant("u", np.ones((3, 2, 2, 2), np.int8), (0.5, 0))
    up = {"stride": (2, 2), "padding": (0, 0), "same": False, "activation": "none"}
    b.node("transposed_conv", (y, u), "up", (1, 4, 4, 3), (0.5, 0), **up)
    b.node("dense", ("long", d), "z", (1, 2), (0.5, 0), activation="none")
    layout = layouts.lay_out(b.build("up", "z"))
    assert [layer.name for layer in layout.layers] == ["conv_y"]
    assert {each.name: each.reason for each in layout.left_out} == {
        "transposed_conv_up": "the document has no layout for transposed convolutions",
        "dense_z": "tensor 'long' is int16, not int8 or uint8",
    }
    assert "skipped: transposed_conv 'transposed_conv_up': the document" in str(layout)
    assert "biases" not in str(layout)  # the inputs have no zero point


def test_batch_norm_of_float16_is_folded_unless_a_weight_would_be_infinite():
    for gain, names in ((2, ["dense_y"]), (4, ["dense_y"]), (65504, ["dense_y"])):
        b = GraphBuilder()
        w = b.constant("w", np.float16([[1, 0.1, -2], [3, 16000, 1e-7]]))
        inputs = b.input("x", (1, 3), dtype="float16"), w
        y = b.node("dense", inputs, "y", (1, 2), dtype="float16", activation="none")
        parameters = [
            b.constant(name, np.full(2, each, np.float16))
            for name, each in (("g", gain), ("s", 0.5), ("m", 1), ("v", 1))
        ]
        b.node("batch_norm", (y, *parameters), "z", (1, 2), dtype="float16", epsilon=0.0)
        layout = layouts.lay_out(b.build("z"))
        assert [layer.name for layer in layout.layers] == names
        folds = gain < 65504
        assert [bool(each.reason) for each in layout.left_out] == [True] * (not folds)
        due = value(b.build("z"), "w").astype(np.float64) * (gain if folds else 1)
        found = layout.layers[0]
        np.testing.assert_array_equal(found.filter[:, :, 0, 0], due.astype(np.float16))
        assert (found.bias is not None) == folds
        if found.bias is not None:
            np.testing.assert_array_equal(found.bias, [0.5 - gain] * 2)


def test_a_layer_that_is_not_there_is_answered_with_those_that_are():
    layout = layouts.lay_out(weighted_graph([Weighted(), Weighted(op="dense")]))
    with pytest.raises(KeyError, match="'nix' is not a layer; layers are conv_y0, dense_y1"):
        layout["nix"]


def test_impossible_requests_are_refused():
    graph = weighted_graph([Weighted()])
    for options, message in (
        ({"weights": "bf16"}, r"^test has no float layers: leave out --weights bf16$"),
        ({"weights": "f8"}, r"^weights must be one of \['f32', 'f16', 'bf16'\], not 'f8'$"),
        ({"optimize_3ic": 4}, r"^optimize_3ic must be one of \[0, 1, 2, 3\], not 4$"),
    ):
        with pytest.raises(ValueError, match=message):
            layouts.lay_out(graph, **options)
    b = GraphBuilder()
    b.node("relu", (b.input("x", (1, 3), (0.5, 0)),), "y", (1, 3), (0.5, 0))
    with pytest.raises(ValueError, match=r"^test has no layer to lay out$"):
        layouts.lay_out(b.build("y"))
