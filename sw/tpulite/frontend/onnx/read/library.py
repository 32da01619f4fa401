"""Shapes that ONNX Runtime knows and onnx does not: those of operators of its own."""

import importlib.util
from collections.abc import Iterable

import onnx
from onnx import TensorProto, helper

from tpulite.frontend.onnx.library import open_session
from tpulite.frontend.onnx.read.tensor import static_shape


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
