"""Quantized products from products of integers, a bias in int32 and a factor in float32."""

from dataclasses import replace

import numpy as np

from tpulite.frontend.onnx.draft import Draft
from tpulite.graph.graph import Node, Quantization, Tensor

_FLOAT = 1
"""What ONNX calls float32."""


def scale_sums(draft: Draft, node: Node) -> bool:
    """Make MatMulInteger, Add, Cast, Mul and QuantizeLinear one dense layer.

    The layer multiplies float32(sum + bias) by one factor, which is that of Mul as long as the
    scales of input and output change nothing but exponents.
    """
    if node.op != "quantize":
        return False
    y = draft.tensors[node.outputs[0]]
    product, factor = _without_constant(draft, node.inputs[0], "mul")
    cast = _writer(draft, product, "cast")
    if factor is None or factor.size != 1 or factor.dtype != np.float32 or cast is None:
        return False
    sums, bias = cast.inputs[0], np.zeros(1, np.int32)
    addend: np.ndarray | None = bias
    while addend is not None:
        bias = bias + addend  # wraps, as the sums do
        sums, addend = _without_constant(draft, sums, "add")
    dense = _writer(draft, sums, "dense")
    if dense is None or not dense.attributes.get("raw") or cast["to"] != _FLOAT:
        return False
    x, weight = (draft.tensors[name] for name in dense.inputs)
    outputs = draft.tensors[sums].shape[-1]
    if bias.size not in (1, outputs) or bias.shape[-1] != bias.size or len(weight.shape) != 2:
        return False
    scales = [tensor.quantization.scale for tensor in (x, y) if tensor.quantization is not None]
    if len(scales) < 2 or not all(_is_power_of_two(scale) for scale in scales):
        return False
    assert weight.quantization is not None
    scale = (factor.reshape(1) / scales[0]).astype(np.float32)
    points = weight.quantization.zero_point
    if scale <= 0 or not np.isfinite(scale) or len(np.unique(points)) > 1:
        return False
    matrix, added = f"{node.name}/weight", f"{node.name}/bias"
    draft.add_tensor(replace(weight, name=matrix, quantization=Quantization(scale, points[:1])))
    values = np.ascontiguousarray(np.broadcast_to(bias.reshape(-1), outputs))
    draft.add_tensor(Tensor(added, values.shape, "int32", data=values))
    attributes = {name: value for name, value in dense.attributes.items() if name != "raw"}
    draft.remove(node.name)
    draft.set(
        replace(
            dense,
            inputs=(dense.inputs[0], matrix, added),
            outputs=node.outputs,
            attributes=attributes,
        )
    )
    return True


def _writer(draft: Draft, name: str, op: str) -> Node | None:
    """Return who computes a tensor for one reader only, if it is such an operator."""
    writer = draft.writer(name)
    if writer is None or writer.op != op or draft.only_reader(name) is None:
        return None
    return writer


def _without_constant(draft: Draft, name: str, op: str) -> tuple[str, np.ndarray | None]:
    """Return the other operand of an operator and its constant one, None if there is none."""
    writer = _writer(draft, name, op)
    if writer is not None:
        for one, other in (writer.inputs, writer.inputs[::-1]):
            data = draft.tensors[other].data
            if data is not None and draft.tensors[one].shape == draft.tensors[name].shape:
                return one, data
    return name, None


def _is_power_of_two(scale: np.ndarray) -> bool:
    return scale.size == 1 and bool(np.frexp(scale[0])[0] == 0.5)
