"""Parts of a TFLite file as files of their own."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tpulite.frontend.backwards import needed
from tpulite.frontend.tflite.parse import FileModel, parse_tflite
from tpulite.frontend.tflite.variables import VARIABLE_OPERATORS, resolve_variables

_SHAPE = 77
"""Code of SHAPE, whose value is known: shapes are static."""


def cut_tflite(
    data: bytes, inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[bytes, list[int]]:
    """Return a file of the operators between some tensors of a file's first subgraph.

    Parameters
    ----------
    data : bytes
        A TFLite file that can be read; its object form needs ``ai-edge-litert``.
    inputs : sequence of int
        Numbers of the tensors that are given.
    outputs : sequence of int
        Numbers of the tensors that are wanted, each computed by an operator.

    Returns
    -------
    file : bytes
        Operators in their order, other subgraphs as they were, no signatures. There are no
        operators on variables: results of their reads are given, or what was written before.
    more : list of int
        Inputs of the file, and its variables before a run, that are needed besides: inputs of the
        part, too, behind the others.
    """
    model = unpack(data)
    widen_filters(model)
    graph = model.subgraphs[0]
    states = _resolve(model, parse_tflite(data), data)
    for operator in graph.operators:
        if _code(model, operator) == _SHAPE:
            _become_constant(model, graph, operator)
    operators = [op for op in graph.operators if _code(model, op) != _SHAPE]
    kept = {i for i, tensor in enumerate(graph.tensors) if tensor.isVariable}
    users = [(_numbers(op.inputs), _numbers(op.outputs)) for op in operators]
    # An operator changes the variables that it reads.
    users = [(x, [*y, *(i for i in x if i in kept)]) for x, y in users]
    chosen, reached = needed(users, [i for i in inputs if i not in kept], outputs)
    graph.operators = [operators[i] for i in chosen]
    given = [*_numbers(graph.inputs), *states]
    more = [i for i in given if i in reached and i not in inputs]
    _renumber(graph, [*inputs, *more], outputs)
    keep_buffers(model, data)
    model.signatureDefs, model.metadata, model.metadataBuffer = [], [], []
    return pack(model), more


def _resolve(model: Any, file: FileModel, data: bytes) -> list[int]:
    """Remove the operators on variables; return the tensors that hold these before a run."""
    graph, variables = model.subgraphs[0], resolve_variables(data, file)
    kept = []
    for operator, parsed in zip(graph.operators, file.operators, strict=True):
        if parsed.code not in VARIABLE_OPERATORS:
            operator.inputs = [variables.aliases.get(i, i) for i in _numbers(operator.inputs)]
            kept.append(operator)
        elif parsed.code == "CALL_ONCE":
            once = model.subgraphs[parsed.options["InitSubgraphIndex"]]
            once.operators, once.tensors = [], []
    graph.operators = kept
    return [state.input for state in variables.states]


def _code(model: Any, operator: Any) -> int:
    code = model.operatorCodes[operator.opcodeIndex]
    return max(code.builtinCode, code.deprecatedBuiltinCode)


def _numbers(values: Iterable[int] | None) -> list[int]:
    return [] if values is None else [int(i) for i in values]


def _become_constant(model: Any, graph: Any, operator: Any) -> None:
    """Give the result of SHAPE its value: a batch that varies is 1."""
    shape = _numbers(graph.tensors[operator.inputs[0]].shape)
    result = graph.tensors[operator.outputs[0]]
    dtype = np.int64 if result.type == 4 else np.int32
    buffer = type(model.buffers[0])()
    buffer.data = np.array(shape, dtype).view(np.uint8)
    model.buffers.append(buffer)
    result.buffer = len(model.buffers) - 1


def _renumber(graph: Any, inputs: Sequence[int], outputs: Sequence[int]) -> None:
    """Keep only the tensors that somebody names."""
    used = {*inputs, *outputs}
    lists = ("inputs", "outputs", "intermediates")
    for operator in graph.operators:
        used.update(i for name in lists for i in _numbers(getattr(operator, name)))
    order = sorted(used - {-1})
    new = {old: number for number, old in enumerate(order)} | {-1: -1}
    graph.tensors = [graph.tensors[i] for i in order]
    for operator in graph.operators:
        for name in lists:
            if getattr(operator, name) is not None:
                setattr(operator, name, [new[i] for i in _numbers(getattr(operator, name))])
    graph.inputs, graph.outputs = [new[i] for i in inputs], [new[i] for i in outputs]


def keep_buffers(model: Any, data: bytes) -> None:
    """Keep only the buffers that a tensor of an object form has; those behind the file come in."""
    new, kept = {0: 0}, [model.buffers[0]]
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        if tensor.buffer not in new:
            buffer = model.buffers[tensor.buffer]
            if buffer.size and buffer.offset > 1:
                buffer.data = np.frombuffer(data, np.uint8, buffer.size, buffer.offset)
                buffer.size = buffer.offset = 0
            new[tensor.buffer] = len(kept)
            kept.append(buffer)
        tensor.buffer = new[tensor.buffer]
    model.buffers = kept


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


def unpack(data: bytes) -> Any:
    """Return the object form of a file, a ModelT."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
        from ai_edge_litert import schema_py_generated as schema

    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(data))


def pack(model: Any) -> bytes:
    """Return the file of an object form whose weights are all inside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import flatbuffers
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
