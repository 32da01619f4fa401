"""Shapes of all tensors, and the values of those that depend on nothing else."""

import importlib.util
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tpulite.frontend.onnx.library import open_session
from tpulite.frontend.onnx.read.attributes import array, attributes_of, static_shape, type_of
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


def learn_shapes(model: onnx.ModelProto) -> bool:
    """Add to a model, in place, the shapes of tensors that only ONNX Runtime can infer.

    Nothing runs. What a run alone knows, and scalars, stay as they were, and all of it does where
    ONNX Runtime is missing or refuses the model.

    Returns
    -------
    bool
        Whether there were any.
    """
    graph = model.graph
    values = (*graph.value_info, *graph.output, *graph.input)
    known = {value.name for value in values if static_shape(value) is not None}
    computed = [name for node in graph.node for name in node.output if name]
    unknown = [name for name in dict.fromkeys(computed) if name not in known]
    if not unknown or importlib.util.find_spec("onnxruntime") is None:
        return False
    learned = {value.name: value for value in _inferred(model, unknown)}
    declared = [value for value in (*graph.value_info, *graph.output) if value.name in learned]
    for value in declared:
        value.CopyFrom(learned[value.name])
    there = {value.name for value in declared}
    graph.value_info.extend(value for name, value in learned.items() if name not in there)
    return bool(learned)


def _inferred(model: onnx.ModelProto, names: list[str]) -> Iterable[onnx.ValueInfoProto]:
    """Yield the types of those tensors whose shape ONNX Runtime infers."""
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    del asked.graph.output[:]
    asked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        session = open_session(asked.SerializeToString(), "DISABLE_ALL", disable_prepacking="1")
    except Exception:  # ONNX Runtime has classes of its own; it may know less than we do
        return
    for output in session.get_outputs():
        fixed = output.shape and all(isinstance(extent, int) for extent in output.shape)
        if fixed and output.type.startswith("tensor("):
            kind = output.type.removeprefix("tensor(").removesuffix(")")
            number = TensorProto.DataType.Value(kind.upper())
            yield helper.make_tensor_value_info(output.name, number, output.shape)


_LEAST_BYTES = 1 << 16
"""Weights of so many bytes are left out. No shape depends on a matrix, and vectors stay."""


def infer_shapes(model: onnx.ModelProto, *, strict: bool = False, values: bool = False) -> None:
    """Write the shapes of tensors into a model, as far as they can be known.

    Parameters
    ----------
    strict : bool
        Whether it must be consistent.
    values : bool
        Whether values of vectors are followed that shapes are computed with.

    Raises
    ------
    onnx.shape_inference.InferenceError
        If shapes contradict each other and ``strict``.
    """
    with _without_weights(model):
        found = onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=values)
        model.CopyFrom(found)


@contextmanager
def _without_weights(model: onnx.ModelProto) -> Iterator[None]:
    """Take the data of large matrices out of a model."""
    taken = {
        index: tensor.raw_data
        for index, tensor in enumerate(model.graph.initializer)
        if len(tensor.dims) > 1 and len(tensor.raw_data) >= _LEAST_BYTES
    }
    for index in taken:
        model.graph.initializer[index].ClearField("raw_data")
    try:
        yield
    finally:
        for index, data in taken.items():
            model.graph.initializer[index].raw_data = data
