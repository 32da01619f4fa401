"""Shapes of all tensors, and the values of those that depend on nothing else."""

import math

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.frontend.onnx.read.library import learn_shapes
from tpulite.frontend.onnx.read.shapes import infer_shapes
from tpulite.frontend.onnx.read.tensor import array, static_shape, type_of
from tpulite.graph.folded_bytes import FoldedBytes

_MOST_VALUES = 1 << 20
"""Elements of a vector whose values may be propagated."""

_FOLDED = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "Cast",
        "CastLike",
        "Ceil",
        "Clip",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "Div",
        "Equal",
        "Erf",
        "Exp",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "Or",
        "Pad",
        "Pow",
        "QuantizeLinear",
        "Range",
        "Reciprocal",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Round",
        "ScatterND",
        "Sign",
        "Slice",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Sum",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Where",
    ]
)
"""Operators whose value is computed if their inputs are constants.

DequantizeLinear is not among them: the integers are what the machine multiplies.
"""


def infer_and_fold(model: onnx.ModelProto, opset: int) -> None:
    """Infer shapes and compute constants in place, each as far as the other allows.

    Raises
    ------
    onnx.shape_inference.InferenceError
        If shapes contradict each other.
    ValueError
        If constants become too large; the message names the node.
    """
    graph = model.graph
    folded = FoldedBytes(sum(x.ByteSize() for x in (*graph.initializer, *graph.node)))
    # Propagation writes values down that are still to be counted, so it comes last.
    for propagate in (False, True):
        more = True
        while more:
            values = propagate and _few_values(graph)
            _infer(model, values=values)
            more = _fold(model, opset, folded) or (propagate and learn_shapes(model))


def _infer(model: onnx.ModelProto, *, values: bool) -> None:
    """Infer shapes in place.

    onnx has no rule for GroupNormalization, and refuses what reads its result; ONNX Runtime has.
    """
    try:
        infer_shapes(model, strict=True, values=values)
    except onnx.shape_inference.InferenceError:
        grouped = any(node.op_type == "GroupNormalization" for node in model.graph.node)
        if not (grouped and learn_shapes(model)):
            raise
        infer_shapes(model, strict=True, values=values)


def _few_values(graph: onnx.GraphProto) -> bool:
    """Return whether all vectors are as short as those that shapes are computed with."""
    shapes = (static_shape(value) for value in graph.value_info)
    return all(max(shape) <= _MOST_VALUES for shape in shapes if shape and len(shape) == 1)


def _fold(model: onnx.ModelProto, opset: int, folded: FoldedBytes) -> bool:
    """Replace nodes with known values by constants; tell whether there were any."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    types = {
        value.name: type_of(value)
        for value in (*graph.value_info, *graph.input, *graph.output)
        if value.name not in constants
    }
    shapes = {name: shape for name, (_, shape) in types.items()}
    shapes |= {name: tuple(tensor.dims) for name, tensor in constants.items()}
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        values = _shape_values(node, shapes)
        if values is None:
            values = _evaluate(node, constants, types, opset, folded)
        if values is None:
            kept.append(node)
            continue
        for name, value in zip(filter(None, node.output), values, strict=True):
            tensor = numpy_helper.from_array(np.asarray(value), name)
            graph.initializer.append(tensor)
            constants[name] = tensor
            shapes[name] = tuple(tensor.dims)
    any_folded = len(kept) < len(graph.node)
    del graph.node[:]
    graph.node.extend(kept)
    return any_folded


def _shape_values(node: onnx.NodeProto, shapes: dict) -> list[np.ndarray] | None:
    """Return the value of Shape and Size of a tensor whose shape is known."""
    if node.op_type not in ("Shape", "Size") or node.domain:
        return None
    shape = shapes.get(node.input[0])
    if shape is None:
        return None
    if node.op_type == "Size":
        return [np.array(math.prod(shape), np.int64)]
    return [value_of_shape(node, shape)]


def value_of_shape(node: onnx.NodeProto, shape: tuple[int, ...]) -> np.ndarray:
    """Return what a Shape gives for a tensor of this shape: int64 [axes from start to end]."""
    attributes = attributes_of(node)
    return np.array(shape[attributes.get("start", 0) : attributes.get("end")], np.int64)


def _evaluate(
    node: onnx.NodeProto,
    constants: dict[str, onnx.TensorProto],
    types: dict[str, tuple[str, tuple[int, ...] | None]],
    opset: int,
    folded: FoldedBytes,
) -> list[np.ndarray] | None:
    names = [name for name in node.input if name]
    if node.domain or node.op_type not in _FOLDED or any(name not in constants for name in names):
        return None
    if node.op_type != "Constant":
        size = 0
        for name in filter(None, node.output):
            dtype, shape = types.get(name, ("object", None))
            if shape is None:
                return None
            size += math.prod(shape) * np.dtype(dtype).itemsize
        folded.take(f"node {node.name or node.output[0]!r} ({node.op_type})", size)
    graph = helper.make_graph(
        [node],
        "constant",
        [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(names)],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    feeds = {name: array(constants[name]) for name in names}
    try:
        with np.errstate(all="ignore"):
            return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds)]
    except Exception:  # whatever the reference does not manage stays a node
        return None
