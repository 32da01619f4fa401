"""PRELU of TFLite files, which Google's AI Edge quantizer leaves in floats."""

from collections import defaultdict
from typing import Any

import numpy as np

from tpulite.frontend.tflite.cut import pack, unpack

_DEQUANTIZE, _PRELU, _QUANTIZE = 6, 54, 114
_FLOAT32, _INT8 = 0, 9  # of the schema
_LARGEST = 127


def join_prelus(data: bytes) -> bytes:
    """Return a file in which PRELU between DEQUANTIZE and QUANTIZE of int8 is one of integers.

    Slopes get one scale, without zero point. Others, and slopes that are not constant, stay.

    Parameters
    ----------
    data : bytes
        TFLite file.
    """
    model = unpack(data)
    found = [_join(model, graph) for graph in model.subgraphs]
    return pack(model) if any(found) else data


def _join(model: Any, graph: Any) -> bool:
    codes = [
        max(model.operatorCodes[each.opcodeIndex].builtinCode,
            model.operatorCodes[each.opcodeIndex].deprecatedBuiltinCode)
        for each in graph.operators
    ]  # fmt: skip
    made = {int(y): i for i, each in enumerate(graph.operators) for y in each.outputs}
    read: dict[int, list[int]] = defaultdict(list)
    for i, each in enumerate(graph.operators):
        for x in each.inputs:
            read[int(x)].append(i)
    gone: set[int] = set()
    for i, node in enumerate(graph.operators):
        if codes[i] != _PRELU:
            continue
        x, slope = map(int, node.inputs)
        (y,) = map(int, node.outputs)
        before, after = made.get(x), read[y]
        if before is None or codes[before] != _DEQUANTIZE or len(after) != 1 or y in graph.outputs:
            continue
        first, last = int(graph.operators[before].inputs[0]), graph.operators[after[0]]
        ends = {graph.tensors[each].type for each in (first, int(last.outputs[0]))}
        values = model.buffers[graph.tensors[slope].buffer].data
        if codes[after[0]] != _QUANTIZE or ends != {_INT8} or values is None:
            continue
        if graph.tensors[slope].type != _FLOAT32:
            continue
        node.inputs, node.outputs = [first, _rounded(model, graph, slope)], list(last.outputs)
        gone.add(after[0])
        read[x].remove(i)
        if not read[x] and x not in graph.outputs:
            gone.add(before)
    graph.operators = [each for i, each in enumerate(graph.operators) if i not in gone]
    return bool(gone)


def _rounded(model: Any, graph: Any, number: int) -> int:
    """Add constant slopes, rounded to int8; return the number of the tensor."""
    from ai_edge_litert import schema_py_generated as schema

    slope = graph.tensors[number]
    values = np.asarray(model.buffers[slope.buffer].data, np.uint8).view("<f4")
    scale = np.float32(np.abs(values).max(initial=0) / _LARGEST or 1)
    buffer, tensor = type(model.buffers[0])(), type(slope)()
    buffer.data = np.rint(values / scale).astype(np.int8).view(np.uint8)
    model.buffers.append(buffer)
    tensor.name, tensor.shape, tensor.type = slope.name + b"/int8", slope.shape, _INT8
    tensor.buffer = len(model.buffers) - 1
    tensor.quantization = schema.QuantizationParametersT()
    tensor.quantization.scale, tensor.quantization.zeroPoint = [float(scale)], [0]
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1
