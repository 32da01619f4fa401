"""A form of SVDF that LiteRT accepts and does not have."""

from typing import Any

import numpy as np

from tpulite.frontend.tflite.object_form import pack, unpack

_SVDF = 27
_TIME, _STATE = 2, 4  # inputs of SVDF
_INT16, _INT8 = 7, 9  # of the schema


def widened(data: bytes) -> bytes:
    """Return a file as it is, or with SVDF of 16 bits if it has some of 8.

    See :func:`widen_filters`; the object form of a file needs ``ai-edge-litert``.
    """
    model = unpack(data)
    return pack(model) if widen_filters(model) else data


def widen_filters(model: Any) -> bool:
    """Give SVDF 16 bits where TensorFlow Lite Micro has 8, in place; tell whether there is any.

    LiteRT's kernel takes time weights and states for int16 whatever their type is, reads and writes
    beyond their ends, and brings the process down. In int16 the same integers mean the same.

    Parameters
    ----------
    model : ModelT
        The object form of a file.
    """
    graph, found = model.subgraphs[0], False
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex]
        svdf = max(code.builtinCode, code.deprecatedBuiltinCode) == _SVDF
        if not svdf or len(operator.inputs) <= _STATE:
            continue
        for index in (int(operator.inputs[_TIME]), int(operator.inputs[_STATE])):
            tensor = graph.tensors[index]
            if tensor.type != _INT8:
                continue
            tensor.type, found = _INT16, True
            data = model.buffers[tensor.buffer].data
            if data is not None and len(data):
                buffer = type(model.buffers[0])()
                buffer.data = np.asarray(data).view(np.int8).astype("<i2").view(np.uint8)
                model.buffers.append(buffer)
                tensor.buffer = len(model.buffers) - 1
    return found
