"""Runs of LiteRT by kernel set, and of integer layers on the golden model."""

import warnings
from dataclasses import replace

import numpy as np

from tpulite.frontend.tflite.writer import write_tflite
from tpulite.golden.layers import run_layers
from tpulite.quant.exactness import Exactness
from tpulite_testing.drawn.movement_cases import MovementCase
from tpulite_testing.drawn.operator_cases import Case
from tpulite_testing.graphs.lowered import lower_graph

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

__all__ = ["KERNELS", "moved_by_litert", "run_golden", "run_litert"]

KERNELS = {
    Exactness.LITERT_REF: OpResolverType.BUILTIN_REF,
    Exactness.LITERT_OPT: OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    Exactness.LITERT_XNNPACK: OpResolverType.AUTO,
}


def run_litert(case: Case, exactness: Exactness) -> np.ndarray:
    """Return LiteRT's output of a case.

    Its reference kernel of SUM of int8 reads a multiplier that nobody has set; that of uint8 takes
    its place.
    """
    (node,), x = case.graph.nodes, case.inputs[0]
    if node.op == "sum" and x.dtype == np.int8 and exactness == Exactness.LITERT_REF:
        return flip(run_litert(_of_uint8(case), exactness), unsigned=True)
    interpreter = Interpreter(
        model_content=case.model,
        experimental_op_resolver_type=KERNELS[exactness],
        num_threads=1,
    )
    interpreter.allocate_tensors()
    index = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}
    for name, value in zip(case.graph.inputs, case.inputs, strict=True):
        interpreter.set_tensor(index[name], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def moved_by_litert(
    case: MovementCase, exactness: Exactness = Exactness.LITERT_REF
) -> list[np.ndarray]:
    """Return all of LiteRT's outputs of a case that moves data."""
    kernels = {"experimental_op_resolver_type": KERNELS[exactness], "num_threads": 1}
    interpreter = Interpreter(model_content=case.model, **kernels)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), case.inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]


def _of_uint8(case: Case) -> Case:
    """Return the same case with unsigned integers."""
    tensors = {}
    for name, tensor in case.graph.tensors.items():
        q = tensor.quantization
        assert q is not None
        tensors[name] = replace(
            tensor, dtype="uint8", quantization=replace(q, zero_point=q.zero_point + 128)
        )
    graph = replace(case.graph, tensors=tensors)
    inputs = tuple(flip(value, unsigned=True) for value in case.inputs)
    return Case(case.name, graph, write_tflite(graph), inputs)


def run_golden(case: Case, exactness: Exactness) -> np.ndarray:
    """Return the golden model's output of a case, in the type and shape of its tensor."""
    graph = case.graph
    layers = lower_graph(graph, exactness)
    images = {
        name: flip(value, name in layers.unsigned).reshape(layers.activations[name].shape)
        for name, value in zip(graph.inputs, case.inputs, strict=True)
    }
    (output,) = graph.outputs
    result = run_layers(layers, images)[output]
    return flip(result, output in layers.unsigned).reshape(graph.tensors[output].shape)


def flip(value: np.ndarray, unsigned: bool) -> np.ndarray:
    """Turn uint8 into the int8 that holds it, and back."""
    if not unsigned:
        return value
    other = np.int8 if value.dtype == np.uint8 else np.uint8
    return (value.view(np.uint8) ^ 0x80).view(other)
