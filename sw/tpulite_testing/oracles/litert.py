"""Runs of LiteRT by kernel set, and of integer layers on the golden model."""

import warnings

import numpy as np

from tpulite.golden.layers import run_layers
from tpulite.quant.exactness import Exactness
from tpulite_testing.drawn.operator_cases import Case
from tpulite_testing.graphs.lowered import lower_graph

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

__all__ = ["KERNELS", "run_golden", "run_litert"]

KERNELS = {
    Exactness.LITERT_REF: OpResolverType.BUILTIN_REF,
    Exactness.LITERT_OPT: OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    Exactness.LITERT_XNNPACK: OpResolverType.AUTO,
}


def run_litert(case: Case, exactness: Exactness) -> np.ndarray:
    """Return LiteRT's output of a case."""
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
