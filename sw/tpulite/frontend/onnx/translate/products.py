"""Matrix products and quantization of ONNX."""

import math
from typing import Any

from tpulite.frontend.onnx.read.model import OnnxNode
from tpulite.frontend.onnx.translate.importer import Importer, Rule, UncoveredError
from tpulite.graph.graph import Quantization

_BLOCKS = "its scales are per block"
_CHANNELS = "its activation has per-channel scales"
_COMPUTED = "it multiplies two matrices that are computed at run time"
_FACTOR = "its alpha or beta scales a quantized tensor"
_MATRIX = "its weights are not a matrix, nor a small stack of matrices"
_MAX_MATRICES = 64
_SCALES = "its type is not an integer, or its scales are computed at run time or not positive"


def _gemm(graph: Importer, node: OnnxNode) -> None:
    x, weight, bias = (*node.inputs, "")[:3]
    shapes = graph.known_shape(x), graph.known_shape(weight)
    if not graph.is_weight(weight):
        raise UncoveredError(_COMPUTED)
    transposed = bool(node.attributes.get("transB", 0))
    columns = shapes[1][0 if transposed else 1]
    if (alpha := node.attributes.get("alpha", 1.0)) != 1.0:
        values = graph.constant(weight)
        if values is None:
            raise UncoveredError(_FACTOR)
        weight = graph.add_constant("scaled_weight", (values * alpha).astype(values.dtype))
    if bias and (beta := node.attributes.get("beta", 1.0)) != 1.0:
        values = graph.constant(bias)
        if values is None:
            raise UncoveredError(_FACTOR)
        bias = graph.add_constant("scaled_bias", (values * beta).astype(values.dtype))
    if node.attributes.get("transA", 0):
        x_transposed = graph.temporary("transposed", shapes[0][::-1], graph.dtype(x))
        graph.emit("transpose", [x], [x_transposed], perm=(1, 0))
        x = x_transposed
    size = math.prod(graph.shape(bias) or (1,)) if bias else 0
    fused = bias and graph.is_weight(bias) and size in (1, columns)
    y = node.outputs[0]
    product = y
    if bias and not fused:
        product = graph.temporary("product", graph.shape(y) or (), graph.dtype(y))
    inputs = [x, weight, bias] if fused else [x, weight]
    graph.emit("dense", inputs, [product], transposed=transposed, activation="none")
    if product != y:
        graph.emit("add", [product, bias], [y], activation="none")


def _matmul(graph: Importer, node: OnnxNode) -> None:
    if not graph.is_weight(node.inputs[1]):
        shapes = [graph.shape(name) for name in node.inputs[:2]]
        if any(shape is None or len(shape) < 2 for shape in shapes):
            raise UncoveredError(_COMPUTED)
        graph.emit("matmul", node.inputs[:2], node.outputs[:1], adj_x=0, adj_y=0)
    else:
        dense_product(graph, node.inputs[0], node.inputs[1], node.outputs[0])


def dense_product(graph: Importer, x: str, weight: str, y: str, **attributes: Any) -> None:
    """Emit a product ``y`` with a constant matrix, or with one for each of a few matrices of x.

    All but the last axis of x become rows of one matrix.
    """
    x_shape, w_shape = graph.known_shape(x), graph.known_shape(weight)
    attributes = {"transposed": False, "activation": "none"} | attributes
    batched = 2 < len(w_shape) == len(x_shape) and w_shape[:-2] == x_shape[:-2]
    if batched and math.prod(w_shape[:-2]) <= _MAX_MATRICES:
        graph.emit("dense", [x, weight], [y], **attributes)
        return
    if len(w_shape) != 2 or len(x_shape) < 2:
        raise UncoveredError(_MATRIX)
    if len(x_shape) == 2:
        graph.emit("dense", [x, weight], [y], **attributes)
        return
    rows = math.prod(x_shape[:-1])
    matrix = graph.temporary("rows", (rows, x_shape[-1]), graph.dtype(x))
    if (quantization := graph.quantization(x)) is not None:
        matrix = graph.quantize_tensor(matrix, quantization)
    product = graph.temporary("product", (rows, w_shape[1]), graph.dtype(y))
    graph.emit("reshape", [x], [matrix], shape=(rows, x_shape[-1]))
    graph.emit("dense", [matrix, weight], [product], **attributes)
    graph.emit("reshape", [product], [y], shape=(*x_shape[:-1], w_shape[1]))


def _read(graph: Importer, node: OnnxNode, integers: str) -> Quantization:
    """Return what a node says of its integers."""
    x, scale, zero_point = (*node.inputs, "")[:3]
    graph.known_shape(x)
    if node.attributes.get("block_size", 0):
        raise UncoveredError(_BLOCKS)
    quantization = graph.read_quantization(x, scale, zero_point, node.attributes.get("axis", 1))
    if quantization is None or not graph.dtype(integers).startswith(("int", "uint")):
        raise UncoveredError(_SCALES)
    return quantization


def _quantize(graph: Importer, node: OnnxNode) -> None:
    x, y = node.inputs[0], node.outputs[0]
    quantization = _read(graph, node, y)
    if quantization.axis is not None:
        raise UncoveredError(_CHANNELS)
    graph.quantize_tensor(y, quantization)
    graph.emit("quantize", [x], node.outputs)


def _dequantize(graph: Importer, node: OnnxNode) -> None:
    x = node.inputs[0]
    quantization = _read(graph, node, x)
    if quantization.axis is not None and graph.constant(x) is None:
        raise UncoveredError(_CHANNELS)
    graph.emit("dequantize", [graph.quantize_tensor(x, quantization)], node.outputs)


PRODUCT_RULES: dict[str, Rule] = {
    "DequantizeLinear": _dequantize,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "QuantizeLinear": _quantize,
}
