"""Quantization after training of TFLite files: a float network and some data become int8."""

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

from tpulite.frontend.tflite.cut import pack, unpack
from tpulite.quant.prelu_tflite import join_prelus

_PARTS = ("quantizer", "recipe")
"""Modules of the quantizer, which is not among what every developer has."""

_KEY = "serving_default"
"""Signature of files that have none."""

_DEQUANTIZE, _DENSIFY = 6, 124
_FLOAT32 = 0  # of the schema


def quantize_tflite(data: bytes, samples: Sequence[Mapping[str, np.ndarray]]) -> bytes:
    """Quantize a network to int8 weights and activations with Google's AI Edge quantizer.

    Parameters
    ----------
    data : bytes
        TFLite file of floats, which ``ai-edge-quantizer`` can read.
    samples : sequence of mapping of str to ndarray
        Inputs by the names of their tensors; what they contain decides the ranges.

    Returns
    -------
    bytes
        TFLite file; its inputs and outputs are int8, too.

    Raises
    ------
    ValueError
        If the quantizer refuses the file or the samples.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantizer, recipe = (import_module(f"ai_edge_quantizer.{x}") for x in _PARTS)
        file, key, names = _signed(plain_floats(data))
        feeds = [{names[name]: value for name, value in sample.items()} for sample in samples]
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it reports what it does
                tool = quantizer.Quantizer(file, recipe.static_wi8_ai8())
                ranges = tool.calibrate({key: feeds}, num_threads=1)
                return join_prelus(bytes(tool.quantize(ranges).quantized_model or b""))
        except Exception as error:  # anything: it is foreign code on a foreign file
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ValueError(f"the AI Edge quantizer rejects the network: {lines[0]}") from error


def plain_floats(data: bytes) -> bytes:
    """Return the file with float32 constants, operators by number, and names that are unique.

    The quantizer would read operators of files from before 2020 as ADD, and quantize weights behind
    DEQUANTIZE (float16) or DENSIFY (sparse) as activations.
    """
    model = unpack(data)
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    for index, graph in enumerate(model.subgraphs):
        made = _constant_operators(model, graph)
        if made:
            results = _computed(data, index, made)
            graph.operators = [each for i, each in enumerate(graph.operators) if i not in made]
            for position, value in results.items():
                tensor, buffer = graph.tensors[position], type(model.buffers[0])()
                buffer.data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
                model.buffers.append(buffer)
                tensor.buffer, tensor.type = len(model.buffers) - 1, _FLOAT32
    _name_apart(model)
    return pack(model)


def _name_apart(model: Any) -> None:
    """Give each tensor a name of its own; inputs keep theirs, by which samples call them."""
    taken: set[bytes] = set()
    numbers = count()
    for graph in model.subgraphs:
        inputs = {*map(int, graph.inputs)}
        for position in sorted(range(len(graph.tensors)), key=lambda i: i not in inputs):
            tensor = graph.tensors[position]
            name = tensor.name or b""
            while tensor.name in taken:
                tensor.name = name + b"_%d" % next(numbers)
            taken.add(tensor.name)


def _constant_operators(model: Any, graph: Any) -> set[int]:
    """Return the positions of operators that make float32 constants of others, and lead there."""
    known = {i for i, x in enumerate(graph.tensors) if model.buffers[x.buffer].data is not None}
    found, floats = set(), False
    for position, operator in enumerate(graph.operators):
        code = model.operatorCodes[operator.opcodeIndex]
        if code.builtinCode in (_DEQUANTIZE, _DENSIFY) and known.issuperset(operator.inputs):
            known.update(operator.outputs)
            found.add(position)
            floats |= graph.tensors[operator.outputs[0]].type == _FLOAT32
    return found if floats else set()


def _computed(data: bytes, index: int, positions: set[int]) -> dict[int, np.ndarray]:
    """Return the float32 constants that operators of a graph make, by their tensors."""
    from ai_edge_litert import interpreter as litert

    model = unpack(data)
    graph = model.subgraphs[index]
    graph.operators = [graph.operators[i] for i in sorted(positions)]
    made = [int(each.outputs[0]) for each in graph.operators]
    graph.inputs, graph.outputs = [], [i for i in made if graph.tensors[i].type == _FLOAT32]
    model.subgraphs, model.signatureDefs = [graph], []
    interpreter: Any = litert.Interpreter(
        model_content=pack(model),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    interpreter.invoke()
    return {i: interpreter.get_tensor(i) for i in graph.outputs}


def _signed(data: bytes) -> tuple[bytes, str, dict[str, str]]:
    """Return the file with a signature, its key, and what it calls inputs by their tensors."""
    from ai_edge_litert import schema_py_generated as schema

    model = unpack(data)
    graph = model.subgraphs[0]
    if not model.signatureDefs:
        signature: Any = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = _KEY.encode(), 0
        signature.inputs = [_entry(schema, graph, i) for i in graph.inputs]
        signature.outputs = [_entry(schema, graph, i) for i in graph.outputs]
        model.signatureDefs = [signature]
        data = pack(model)
    first: Any = model.signatureDefs[0]
    names = {
        graph.tensors[each.tensorIndex].name.decode(): each.name.decode() for each in first.inputs
    }
    return data, first.signatureKey.decode(), names


def _entry(schema: Any, graph: Any, index: int) -> Any:
    entry: Any = schema.TensorMapT()
    entry.name, entry.tensorIndex = graph.tensors[index].name, int(index)
    return entry
