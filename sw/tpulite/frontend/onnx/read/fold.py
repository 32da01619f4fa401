"""Shapes of all tensors, and the values of those that depend on nothing else."""

import math

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tpulite.frontend.onnx.read.library import learn_shapes
from tpulite.frontend.onnx.read.tensor import array, static_shape

__all__ = ["infer_and_fold"]

_MAX_FOLDED = 1 << 26
"""Elements: more than the largest weight tensor; a damaged file must not fill the memory."""

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
    """
    while True:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        model.CopyFrom(inferred)
        if not _fold(model, opset) and not learn_shapes(model):
            return


def _fold(model: onnx.ModelProto, opset: int) -> bool:
    """Replace nodes with known values by constants; tell whether there were any."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    shapes = {
        value.name: static_shape(value)
        for value in (*graph.value_info, *graph.input, *graph.output)
        if value.name not in constants
    }
    shapes |= {name: tuple(tensor.dims) for name, tensor in constants.items()}
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        values = _shape_values(node, shapes)
        if values is None:
            values = _evaluate(node, constants, shapes, opset)
        if values is None:
            kept.append(node)
            continue
        for name, value in zip(filter(None, node.output), values, strict=True):
            tensor = numpy_helper.from_array(np.asarray(value), name)
            graph.initializer.append(tensor)
            constants[name] = tensor
            shapes[name] = tuple(tensor.dims)
    folded = len(kept) < len(graph.node)
    del graph.node[:]
    graph.node.extend(kept)
    return folded


def _shape_values(node: onnx.NodeProto, shapes: dict) -> list[np.ndarray] | None:
    """Return the value of Shape and Size of a tensor whose shape is known."""
    if node.op_type not in ("Shape", "Size") or node.domain:
        return None
    shape = shapes.get(node.input[0])
    if shape is None:
        return None
    if node.op_type == "Size":
        return [np.array(math.prod(shape), np.int64)]
    attributes = {a.name: a.i for a in node.attribute}
    return [np.array(shape[attributes.get("start", 0) : attributes.get("end")], np.int64)]


def _evaluate(
    node: onnx.NodeProto, constants: dict[str, onnx.TensorProto], shapes: dict, opset: int
) -> list[np.ndarray] | None:
    names = [name for name in node.input if name]
    if node.domain or node.op_type not in _FOLDED or any(name not in constants for name in names):
        return None
    if node.op_type != "Constant":
        known = [shapes.get(name) for name in node.output if name]
        if any(shape is None or math.prod(shape) > _MAX_FOLDED for shape in known):
            return None
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
