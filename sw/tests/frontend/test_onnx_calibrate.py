"""Quantization after training: what comes out is all integers and close to the floats."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.frontend.onnx.file import load_onnx
from tpulite.graph.graph import Graph
from tpulite.quant.calibrate import quantize_onnx
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx
from tpulite_testing.oracles.onnx_interpreter import interpret

RNG = np.random.default_rng(5)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def network() -> bytes:
    """Return a network with everything that must fold or fuse."""
    b = OnnxBuilder()
    x = b.input("x", ("batch", 3, 8, 8))
    y = b.node("Conv", x, draw(8, 3, 3, 3), pads=[1, 1, 1, 1])
    y = b.node("Relu", b.node("BatchNormalization", y, *np.abs(draw(4, 8))))
    z = b.node("Conv", y, draw(8, 1, 3, 3) / 3, draw(8), group=8, strides=[2, 2], pads=[1, 1, 0, 0])
    z = b.node("Clip", z, np.float32(0), np.float32(6))
    y = b.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = b.node("Sub", b.node("Add", y, z), b.node("HardSwish", b.node("Tanh", z)))
    y = b.node("Concat", y, b.node("Mul", y, b.node("Sigmoid", y)), axis=1)
    y = b.node("AveragePool", b.node("LeakyRelu", y), kernel_shape=[2, 2])
    y = b.node("Flatten", b.node("GlobalAveragePool", y))
    return b.build(b.node("Gemm", y, draw(16, 5), draw(5)))


def weights(graph: Graph) -> list:
    products = [node for node in graph.nodes if node.op in ("conv", "depthwise", "dense")]
    return [graph.tensors[node.inputs[1]] for node in products]


def test_all_operators_become_integers():
    data = network()
    samples = draw(20, 3, 8, 8)
    quantized = quantize_onnx(data, samples)
    graph = load_onnx(quantized, "net")
    inside = [
        node for node in graph.nodes if node.op not in ("transpose", "quantize", "dequantize")
    ]
    assert {node.op for node in inside} == {
        *("conv", "depthwise", "max_pool", "add", "sub", "mul", "sigmoid", "tanh", "hard_swish"),
        *("concat", "leaky_relu", "average_pool", "mean", "reshape", "dense"),
    }
    assert {graph.tensors[node.outputs[0]].dtype for node in inside} == {"uint8"}
    for weight in weights(graph):
        assert weight.dtype == "int8"
        assert weight.quantization.scale.size > 1
        assert not weight.quantization.zero_point.any()
    expected = np.concatenate([run_onnx(data, x[None])[0] for x in samples])
    ours = np.concatenate([interpret(graph, x[None])[0] for x in samples])
    assert np.abs(ours - expected).max() < 0.08 * np.abs(expected).max()


def test_one_scale_for_all_channels_and_symmetric_activations():
    quantized = quantize_onnx(network(), draw(4, 3, 8, 8), per_channel=False, symmetric=True)
    graph = load_onnx(quantized, "net")
    assert {weight.quantization.scale.size for weight in weights(graph)} == {1}
    points = {
        (t.dtype, *t.quantization.zero_point) for t in graph.tensors.values() if t.quantization
    }
    assert points == {("uint8", 128), ("int8", 0), ("int32", 0)}


def test_seven_bits():
    graph = load_onnx(quantize_onnx(network(), draw(4, 3, 8, 8), reduce_range=True), "net")
    assert max(np.abs(weight.data.astype(int)).max() for weight in weights(graph)) <= 64


def test_outliers_may_be_ignored():
    b = OnnxBuilder()
    data = b.build(b.node("Conv", b.input("x", (1, 2, 16, 16)), draw(2, 2, 1, 1)))
    samples = draw(30, 1, 2, 16, 16)
    samples[0, 0, 0, 0, 0] = 100
    graphs = [
        load_onnx(quantize_onnx(data, list(samples), percentile=percentile), "net")
        for percentile in (100, 99.9)
    ]
    scales = [
        meaning.scale[0]
        for graph in graphs
        if (meaning := graph.tensors["x_QuantizeLinear_Output.nhwc"].quantization)
    ]
    assert scales[1] < scales[0] / 4


def test_operators_that_onnx_runtime_would_leave_in_floats():
    b = OnnxBuilder(opset=20)
    y = b.node("BatchNormalization", b.input("x", (1, 3, 6, 6)), *np.abs(draw(4, 3)))
    y = b.node("Gelu", b.node("Softplus", b.node("Elu", y)))
    y = b.node("GlobalMaxPool", y)
    graph = load_onnx(quantize_onnx(b.build(y), draw(5, 3, 6, 6)), "net")
    computed = [node.op for node in graph.nodes if graph.tensors[node.outputs[0]].dtype == "uint8"]
    for op in ("batch_norm", "elu", "softplus", "gelu", "max_pool"):
        assert op in computed


def test_pads_of_chosen_axes_run_in_onnx_runtime_between_convolutions():
    b = OnnxBuilder(opset=18)
    y = b.node("Conv", b.input("x", (1, 3, 6, 6)), draw(4, 3, 1, 1))
    y = b.node("Pad", y, np.array([-1, 2, 3, -2]), "", np.array([2, -1]))
    data, samples = b.build(b.node("Conv", y, draw(4, 4, 1, 1))), draw(5, 1, 3, 6, 6)
    quantized = quantize_onnx(data, list(samples), min_cosine=0.98)
    wanted = run_onnx(data, samples[0])[0]
    assert np.abs(run_onnx(quantized, samples[0])[0] - wanted).max() < 0.1 * np.abs(wanted).max()


@pytest.mark.parametrize("axes", [[2, 3], [-2, -1], [3, 2]])
@pytest.mark.parametrize("scaled", [False, True])
def test_resizes_of_chosen_axes_run_in_onnx_runtime_between_convolutions(axes, scaled):
    b = OnnxBuilder(opset=18)
    y = b.node("Conv", b.input("x", (1, 3, 8, 6)), draw(16, 3, 3, 3))
    by = [b.constant(np.float32([3, 2]))] if scaled else ["", b.constant(np.array([12, 18]))]
    y = b.node("Resize", y, "", *by, axes=axes, mode="nearest", nearest_mode="floor",
               coordinate_transformation_mode="asymmetric")  # fmt: skip
    data = b.build(b.node("Conv", y, draw(8, 16, 1, 1)))
    x = draw(3, 8, 6)
    (wanted,) = run_onnx(data, x[None])
    (found,) = run_onnx(quantize_onnx(data, [x]), x[None])
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize("kind", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("more", [{}, {"pads": [0] * 4}])
@pytest.mark.parametrize(("stride", "extent", "pads"), [(1, 9, (2, 2)), (2, 12, (1, 2))])
def test_dilated_convolutions_with_auto_pad_are_quantized(kind, more, stride, extent, pads):
    weight, x = draw(4, 3, 3, 3), draw(3, extent, extent)

    def made(**flags) -> bytes:
        b = OnnxBuilder()
        y = b.node("Relu", b.input("x", (1, 3, extent, extent)))
        shared = {"dilations": [2, 2], "strides": [stride] * 2}
        return b.build(b.node("Conv", y, weight, **shared, **flags))

    before, after = pads if kind == "SAME_UPPER" else pads[::-1]
    padded = quantize_onnx(made(pads=[before, before, after, after]), [x])
    np.testing.assert_array_equal(
        run_onnx(quantize_onnx(made(auto_pad=kind, **more), [x]), x[None])[0],
        run_onnx(padded, x[None])[0],
    )


def test_samples_of_several_inputs_have_names():
    b = OnnxBuilder()
    data = b.build(b.node("Add", b.input("x", (1, 4)), b.input("z", (1, 4))))
    seen = []
    quantized = quantize_onnx(
        data,
        [{"x": draw(1, 4), "z": draw(4)} for _ in range(3)],
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert [n.op for n in load_onnx(quantized, "net").nodes if n.op == "add"]
    with pytest.raises(
        ValueError, match=r"^Sample 0 must name its arrays; the inputs of the network"
    ):
        quantize_onnx(data, draw(3, 4))
    with pytest.raises(ValueError, match=r"^Sample 0 has the inputs \['x'\], not \['x', "):
        quantize_onnx(data, [{"x": draw(1, 4)}])


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "there are no calibration samples"),
        (None, "there are no calibration samples"),
        (
            draw(2, 3, 8, 9),
            "Sample 0 of 'x' must have the shape ['any', 3, 8, 8], not [1, 3, 8, 9]",
        ),
        ([draw(3, 8, 8), draw(3, 8)], "Sample 1 of 'x' must have the shape"),
        ([np.full((3, 8, 8), np.nan)], "Sample 0 of 'x' holds NaN or infinite values"),
        ([np.full((3, 8, 8), "a")], "Sample 0 of 'x' must be numbers, not str32"),
    ],
)
def test_samples_that_do_not_fit(samples, message):
    with pytest.raises(ValueError, match=r".") as caught:
        quantize_onnx(network(), samples)
    assert str(caught.value).startswith(message)


def test_networks_that_cannot_be_quantized():
    for data, message in (
        (b"something else", "not an ONNX file"),
        (quantize_onnx(network(), draw(2, 3, 8, 8)), "Node 'x_QuantizeLinear': the network is"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            quantize_onnx(data, draw(2, 3, 8, 8))
    with pytest.raises(ValueError, match=r"^percentile must be above 0 "):
        quantize_onnx(network(), draw(2, 3, 8, 8), percentile=0)


def test_a_format_newer_than_onnx_runtime_knows_may_hold_operators_that_it_does():
    model = onnx.load_from_string(network())
    samples = draw(4, 3, 8, 8)
    expected = quantize_onnx(model.SerializeToString(), samples)
    model.ir_version += 3
    assert quantize_onnx(model.SerializeToString(), samples) == expected


def test_nothing_is_logged_when_onnx_runtime_fails(capfd):
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 3, 8, 8)), draw(4, 5, 3, 3))  # 5 channels of 3
    with pytest.raises(ValueError, match=r"^ONNX Runtime cannot quantize the network: "):
        quantize_onnx(b.build(y), draw(2, 3, 8, 8))
    assert capfd.readouterr() == ("", "")
