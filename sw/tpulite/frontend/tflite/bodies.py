"""Multiplications in the subgraphs that TFLite operators call: loops, branches and calls."""

from typing import Any

import tflite
from flatbuffers.number_types import Int32Flags

from tpulite.graph.macs import macs_of_operator

_NEW_CODE = 10
"""Where an operator code has the offset of its newer field."""

_BODIES = {
    "WHILE": (tflite.WhileOptions, ("CondSubgraphIndex", "BodySubgraphIndex")),
    "IF": (tflite.IfOptions, ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "CALL": (tflite.CallOptions, ("Subgraph",)),
}
_OPERATORS = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}


def operator_number(code: Any) -> int:
    """Return the number of an operator in the schema: the greater one of an old and a new field.

    The accessor of the package ``tflite`` does not look at the new one for numbers up to 126, where
    newer writers, such as the AI Edge quantizer, leave the old one 0, which is ADD.
    """
    table = code._tab
    offset = table.Offset(_NEW_CODE)
    new = table.Get(Int32Flags, offset + table.Pos) if offset else 0
    return max(int(new), code.DeprecatedBuiltinCode())


def is_loop(code: str) -> bool:
    """Return whether only a run knows how often an operator's subgraphs run."""
    return code == "WHILE"


def body_macs(
    model: Any, operator: Any, code: str, known: dict[int, int] | None = None
) -> int | None:
    """Return the multiplications in the subgraphs of an operator.

    Parameters
    ----------
    model, operator : tflite.Model, tflite.Operator
        A file, and one of its operators.
    code : str
        Name of the operator.
    known : dict of int to int, optional
        Subgraphs that have been counted; one that calls itself, in a corrupt file, counts once.

    Returns
    -------
    int or None
        Those of the longest branch, or of one iteration; None for operators without subgraphs.
    """
    if code not in _BODIES or operator.BuiltinOptions() is None:
        return None
    table, fields = _BODIES[code]
    union, options = operator.BuiltinOptions(), table()
    options.Init(union.Bytes, union.Pos)
    indices = [getattr(options, field)() for field in fields]
    if not all(0 <= i < model.SubgraphsLength() for i in indices):
        return 0
    known = {} if known is None else known
    counts = [_subgraph_macs(model, i, known) for i in indices]
    return sum(counts) if is_loop(code) else max(counts)


def _subgraph_macs(model: Any, index: int, known: dict[int, int]) -> int:
    if index in known:
        return known[index]
    known[index] = total = 0
    graph = model.Subgraphs(index)
    for i in range(graph.OperatorsLength()):
        operator = graph.Operators(i)
        code = model.OperatorCodes(operator.OpcodeIndex())
        name = _OPERATORS.get(operator_number(code), "")
        inner = body_macs(model, operator, name, known)
        if inner is None:
            inputs = [_shape(graph, operator.Inputs(j)) for j in range(operator.InputsLength())]
            output = _shape(graph, operator.Outputs(0)) if operator.OutputsLength() else ()
            inner = macs_of_operator(name, inputs, output, {})
        total += inner
    known[index] = total
    return total


def _shape(graph: Any, index: int) -> tuple[int, ...]:
    if not 0 <= index < graph.TensorsLength():
        return ()
    tensor = graph.Tensors(index)
    return tuple(tensor.ShapeAsNumpy().tolist()) if tensor.ShapeLength() else ()
