"""Quantized operators from DequantizeLinear, an operator on floats, and QuantizeLinear."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tpulite.frontend.onnx.draft import Draft
from tpulite.frontend.onnx.quantize.behind_products import ACTIVATIONS, clip_rows, join_bias
from tpulite.frontend.onnx.quantize.propagate import (
    INT8,
    express,
    meet,
    merge_equal,
    move,
    spread_quantization,
)
from tpulite.frontend.onnx.translate.elementwise import UNARY
from tpulite.frontend.onnx.weights import real_values
from tpulite.graph.graph import Graph, Node, Quantization, Tensor

_FUSIBLE = (
    *("conv", "transposed_conv", "dense", "matmul", "add", "sub", "mul", "maximum", "minimum"),
    *("average_pool", "mean", "sum", "reduce_max", "reduce_min", "concat"),
)
_WEIGHTED = ("conv", "transposed_conv", "dense")
_REAL_PARAMETERS = ("batch_norm", "prelu")
"""Operators whose first input alone has to be quantized."""
_INT4 = ("int4", "uint4", "int2", "uint2")


def fuse_quantization(graph: Graph, *, by_library: bool = False) -> Graph:
    """Turn float operators between dequantization and quantization into quantized ones.

    Operators that only move numbers change places with the quantization beside them first, so that
    they need none of their own.

    Parameters
    ----------
    graph : Graph
        Axes in the file's order.
    by_library : bool
        Whether the library has made the file: what it has left in floats stays such. That is
        softmax, and a product whose bias would have to be rounded to its sums' scale, or is added
        behind it.

    Returns
    -------
    Graph
        The same network; what could not be fused stays in floats.

    Raises
    ------
    ValueError
        If the quantization of a bias cannot be expressed.
    """
    draft = Draft(graph)
    spread_quantization(draft)
    fuse = partial(_fuse, by_library=by_library)
    if not by_library:
        _repeat(draft, join_bias)
        _repeat(draft, clip_rows)
    # Clips keep quantization from moving, and it moves beside more of them.
    merges = (scale_sums, merge_equal, _drop_clips, move, meet, _drop_clips, fuse, express)
    for merge in merges:
        _repeat(draft, merge)
    _fold_constants(draft)
    return draft.freeze()


def _repeat(draft: Draft, step: Callable[[Draft, Node], bool]) -> None:
    """Apply a step to all nodes until nothing changes."""
    changed = True
    while changed:
        changed = False
        for node in draft.nodes:
            if draft.current(node) and step(draft, node):
                changed = True


def _drop_clips(draft: Draft, node: Node) -> bool:
    """Simplify a clip before a quantization whose own range limits it as well."""
    if node.op not in ("clip", *ACTIVATIONS):
        return False
    after = draft.only_reader(node.outputs[0])
    if after is None or after.op != "quantize":
        return False
    y = draft.tensors[after.outputs[0]]
    if y.quantization is None or y.dtype not in INT8:
        return False
    low, high = _bounds(node)
    limits = np.iinfo(y.dtype)
    scale, zero_point = y.quantization.scale[0], int(y.quantization.zero_point[0])
    reached = [float(scale) * (limit - zero_point) for limit in (limits.min, limits.max)]
    tight_low, tight_high = low > reached[0], high < reached[1]
    if not tight_low and not tight_high:
        draft.set(replace(after, inputs=node.inputs))
        draft.remove(node.name)
        return True
    if tight_low and not tight_high and low == 0 and node.op != "relu":
        draft.set(replace(node, op="relu", attributes={}))
        return True
    return False


def _bounds(node: Node) -> tuple[float, float]:
    fixed = {"relu": (0.0, np.inf), "relu6": (0.0, 6.0), "relu_n1_1": (-1.0, 1.0)}
    return fixed.get(node.op) or (node["low"], node["high"])


def _fuse(draft: Draft, node: Node, *, by_library: bool) -> bool:
    """Make a float operator a quantized one if all that it reads and writes is quantized."""
    unary = node.op in UNARY and node.op not in ("quantize", "dequantize", "requantize")
    if not unary and node.op not in (*_FUSIBLE, *_REAL_PARAMETERS, "softmax"):
        return False
    y = node.outputs[0]
    activation = None
    after = draft.only_reader(y)
    if after is not None and after.op in ACTIVATIONS and node.attributes.get("activation"):
        activation = after
        after = draft.only_reader(after.outputs[0])
    if after is None or after.op != "quantize":
        return False
    result = draft.tensors[after.outputs[0]]
    inputs = _quantized_inputs(draft, node, by_library)
    if inputs is None or result.dtype not in INT8:
        return False
    if node.op == "softmax" and (by_library or not _has_shares(result)):
        return False
    attributes = dict(node.attributes)
    if activation is not None:
        attributes["activation"] = activation.op
        draft.remove(activation.name)
    draft.remove(after.name)
    draft.set(replace(node, inputs=inputs, outputs=(result.name,), attributes=attributes))
    return True


def _has_shares(tensor: Tensor) -> bool:
    """Tell whether integers are shares as LiteRT's softmax has them: 256 steps from 0 to 1."""
    found = tensor.quantization
    lowest = np.iinfo(tensor.dtype).min
    return found is not None and found.scale[0] == 1 / 256 and found.zero_point[0] == lowest


def _quantized_inputs(draft: Draft, node: Node, by_library: bool) -> tuple[str, ...] | None:
    """Return the integers behind the float inputs of a node; None if there are not all."""
    operands = 2 if node.op in _WEIGHTED else len(node.inputs)
    if node.op in _REAL_PARAMETERS:
        operands = 1
    integers = []
    for index, name in enumerate(node.inputs[:operands]):
        writer = draft.writer(name)
        if writer is None or writer.op != "dequantize":
            return None
        tensor = draft.tensors[writer.inputs[0]]
        if tensor.dtype in _INT4 and tensor.data is not None:
            # Narrow weights are int8 weights that happen to be small.
            wide = tensor.dtype.rstrip("0123456789") + "8"
            name = f"{tensor.name}/{wide}"
            draft.add_tensor(replace(tensor, name=name, dtype=wide, data=tensor.data.astype(wide)))
            tensor = draft.tensors[name]
        if tensor.dtype not in INT8 or tensor.quantization is None:
            return None
        axis = tensor.quantization.axis
        if node.op in _WEIGHTED and index == 1:
            channels = 0 if node.op == "conv" or node.attributes.get("transposed") else 1
            several = node.op == "dense" and len(tensor.shape) > 2
            if axis is not None and (several or axis != channels):
                return None
        elif axis is not None:
            return None
        integers.append(tensor.name)
    if node.op in _WEIGHTED and len(node.inputs) > 2 and node.inputs[2]:
        x, weight = (draft.tensors[name].quantization for name in integers)
        assert x is not None and weight is not None
        scales = weight.scale
        if node.op == "transposed_conv" and scales.size > 1:
            scales = np.tile(scales, node["group"])
        bias = _bias(draft, node, x.scale[0] * scales, by_library)
        return None if bias is None else (*integers, bias)
    rest = node.inputs[operands:]
    if node.op == "prelu":
        rest = tuple(_slopes(draft, name) for name in rest)
    return (*integers, *rest)


def _slopes(draft: Draft, name: str) -> str:
    """Return the integers of constant slopes if they have one scale, else what was given."""
    writer = draft.writer(name)
    if writer is None or writer.op != "dequantize":
        return name
    x = draft.tensors[writer.inputs[0]]
    one = x.quantization is not None and x.quantization.axis is None
    return x.name if one and x.data is not None and x.dtype in INT8 else name


def _bias(draft: Draft, node: Node, scale: np.ndarray, exact: bool) -> str | None:
    """Return a bias in the scale of the sums; None if there is none, or none that is exact."""
    name = node.inputs[2]
    writer = draft.writer(name)
    tensor = draft.tensors[name if writer is None else writer.inputs[0]]
    if tensor.data is None or (writer is not None and writer.op != "dequantize"):
        return None
    found = tensor.quantization
    if writer is None or found is None:
        real = tensor.data.astype(np.float64)
    else:
        real = real_values(tensor)
        in_sums = tensor.dtype == "int32" and not found.zero_point.any()
        if in_sums and np.allclose(found.scale, scale, rtol=0 if exact else 1e-3, atol=0):
            return tensor.name
    real = real.reshape(-1)
    scale = scale.astype(np.float32)
    limits = np.iinfo(np.int32)
    data = np.clip(np.rint(real / scale.astype(np.float64)), limits.min, limits.max)
    if not np.isfinite(real).all():
        raise ValueError(f"Node {node.name!r}: bias {tensor.name!r} holds NaN or infinite values")
    if exact and not np.array_equal(data * scale.astype(np.float64), real):
        return None
    quantization = Quantization(
        scale, np.zeros(scale.shape, np.int64), 0 if scale.size > 1 else None
    )
    return draft.add_tensor(
        Tensor(f"{name}/{node.name}", data.shape, "int32", quantization, data.astype(np.int32))
    )


def _fold_constants(draft: Draft) -> None:
    """Replace what is left of dequantized constants by floats."""
    for node in draft.nodes:
        if node.op == "dequantize":
            tensor, y = draft.tensors[node.inputs[0]], draft.tensors[node.outputs[0]]
            if tensor.data is not None and y.name not in draft.graph.outputs:
                with np.errstate(over="ignore"):
                    draft.add_tensor(replace(y, data=real_values(tensor).astype(y.dtype)))
                draft.remove(node.name)


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
