"""Operators that only move first and last states of recurrent nodes, which keep their bits."""

from collections.abc import Iterable, Iterator

import onnx

from tpulite.quant.floats.graph import MOVING, Links
from tpulite.quant.floats.recurrent.cells import FUNCTIONS

_MOVES = MOVING | {"Concat", "Gather", "Slice", "Split"}
_FIRST = slice(5, 7)
"""Inputs that are first states: h and c."""
_LAST = slice(1, 3)
"""Outputs that are last states."""


def state_moves(graph: onnx.GraphProto) -> frozenset[str]:
    """Return the names of operators that lead to first states, or from last ones.

    A state that is an output, and an input of the next run, would else be rounded to 8 bits in each
    run: errors of a cell state add up.
    """
    links = Links(graph)
    nodes = [node for node in graph.node if node.op_type in FUNCTIONS]
    found: set[str] = set()
    todo = list(_names(node.input[_FIRST] for node in nodes))
    while todo:
        node = links.writer.get(todo.pop())
        if node is not None and node.op_type in _MOVES and node.name not in found:
            found.add(node.name)
            todo += node.input
    todo = list(_names(node.output[_LAST] for node in nodes))
    while todo:
        for node in links.readers.get(todo.pop(), []):
            if node.op_type in _MOVES and node.name not in found:
                found.add(node.name)
                todo += node.output
    return frozenset(found)


def _names(ends: Iterable[Iterable[str]]) -> Iterator[str]:
    return (name for each in ends for name in each if name)
