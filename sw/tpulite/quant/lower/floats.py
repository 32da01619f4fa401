"""Sums that ONNX Runtime computes in float32, in an order of its own."""

import numpy as np

from tpulite.graph.graph import Node
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.products import bias_of, largest_sum, weight_scales
from tpulite.quant.tensors import UnsupportedError

_CHANNELS = {"conv": 0, "depthwise": 2, "dense": 0, "transposed_conv": 0}
"""Axis of the output channels in the weights of products."""

_SUMS = (*_CHANNELS, "matmul", "mul", "average_pool", "mean")
"""Operators whose integers would give other results than their floats."""

_IN_FLOATS = (
    *("Conv", "FusedConv", "ConvTranspose", "Gemm", "FusedGemm", "MatMul", "Mul"),
    *("AveragePool", "GlobalAveragePool"),
)
"""What files call operators that are not quantized themselves."""

_EXACT = 1 << 24
"""Integers below it are numbers of float32."""


def require_integers(node: Node, context: GraphContext) -> None:
    """Refuse an operator whose results are not those of integers in ONNX Runtime.

    The library computes it in float32 if it has left it between DequantizeLinear and
    QuantizeLinear. With scales that are powers of two, a product is that of integers even so,
    whatever the order of its sums.

    Raises
    ------
    UnsupportedError
        If it is computed in float32, and some sums are rounded there.
    """
    if node.op not in _SUMS or node.source not in _IN_FLOATS:
        return
    if node.op == "mul" and any(context.tensor(x).data is not None for x in node.inputs):
        return  # lower_pair looks at every byte
    default = context.exactness == Exactness.ORT
    types = {context.tensor(name).dtype for name in (node.inputs[0], node.outputs[0])}
    keeps = default and "int8" in types and node.op != "transposed_conv"
    hint = "; --exact ort-int8 computes in integers" if keeps else ""
    if node.op not in _CHANNELS or "float32" in types:
        raise UnsupportedError(f"ONNX Runtime computes in float32{hint}")
    weight, x = context.tensor(node.inputs[1]), context.quantized(node.inputs[0])
    axis = _CHANNELS[node.op]
    scales = weight_scales(weight, weight.shape[axis], axis=axis)
    all_scales = np.hstack([x.scale, context.quantized(node.outputs[0]).scale, scales])
    if np.any(np.frexp(all_scales)[0] != 0.5):
        raise UnsupportedError(
            f"ONNX Runtime computes in float32, and not all scales are powers of two{hint}"
        )
    bias = int(np.abs(bias_of(node, context).astype(np.int64)).max())
    if largest_sum(weight, x) + bias >= _EXACT:
        raise UnsupportedError(
            f"ONNX Runtime computes in float32, which cannot hold the sums{hint}"
        )
