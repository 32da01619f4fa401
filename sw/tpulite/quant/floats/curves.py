"""Hard swish and hard sigmoid, which exporters write with several operators."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.dead import drop_unread
from tpulite.quant.floats.graph import Links

_TRIED = np.concatenate([np.linspace(-16, 16, 1025), [-1e4, -100.0, 100.0, 1e4]])
"""Arguments for which expressions are compared with functions."""

_CLOSE = 1e-4
"""How far an expression may be from a function, as a part of what is above 1: exporters write 1/6
with few digits."""

_DEEPEST = 5
"""Operators behind each other of which an expression may consist."""


def _hard_sigmoid(x: np.ndarray) -> np.ndarray:
    return np.clip(x / 6 + 0.5, 0, 1)


_CURVES: tuple[tuple[str, Mapping[str, Any], Callable[[np.ndarray], np.ndarray]], ...] = (
    ("HardSwish", {}, lambda x: x * _hard_sigmoid(x)),
    ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, _hard_sigmoid),
)
"""Operators, their attributes, and what they compute."""

_PAIRS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}
"""Operators of two tensors of which expressions consist."""

_ENDS = ("Mul", "Div", "Clip")
"""Operators that end an expression."""


def name_curves(graph: onnx.GraphProto) -> None:
    """Make one operator of those that compute a curve: each of them would round.

    Parameters
    ----------
    graph : GraphProto
        The network; changed in place.
    """
    links = Links(graph)
    for node in reversed(graph.node):
        for source in _sources(node, links, _DEEPEST) if node.op_type in _ENDS else ():
            found = _named(_value(node.output[0], source, links, _DEEPEST))
            if found is not None:
                _become(node, *found, source)
                break
    drop_unread(graph)


def _named(values: np.ndarray | None) -> tuple[str, Mapping[str, Any]] | None:
    """Return the operator that has these values."""
    for op, attributes, curve in _CURVES if values is not None else ():
        wanted = curve(_TRIED)
        if (np.abs(values - wanted) <= _CLOSE * np.maximum(1, np.abs(wanted))).all():
            return op, attributes
    return None


def _sources(node: onnx.NodeProto, links: Links, deepest: int) -> list[str]:
    """Return the tensors on which an operator depends, over so many operators at most."""
    found: dict[str, None] = {}
    for name in (x for x in node.input if x and x not in links.constants):
        found[name] = None
        writer = links.writer.get(name)
        if writer is not None and deepest > 1:
            found |= dict.fromkeys(_sources(writer, links, deepest - 1))
    return [*found]


def _value(name: str, source: str, links: Links, deepest: int) -> np.ndarray | None:
    """Return a tensor for :data:`_TRIED` in a source; None if it depends on anything else."""
    if name == source:
        return _TRIED
    if name in links.constants:
        number = links.scalar(name)
        return None if number is None else np.asarray(number)
    node = links.writer.get(name)
    if node is None or not deepest:
        return None
    if node.op_type in _PAIRS:
        first, second = (_value(x, source, links, deepest - 1) for x in node.input)
        if first is None or second is None:
            return None
        with np.errstate(all="ignore"):
            return _PAIRS[node.op_type](first, second)
    if node.op_type not in ("Clip", "HardSigmoid"):
        return None
    x, flags = _value(node.input[0], source, links, deepest - 1), attributes_of(node)
    if x is None:
        return None
    if node.op_type == "HardSigmoid":
        return np.clip(x * flags.get("alpha", 0.2) + flags.get("beta", 0.5), 0, 1)
    low, high = (links.scalar(each) for each in [*node.input[1:], "", ""][:2])
    return None if low is None or high is None else np.clip(x, low, high)


def _become(node: onnx.NodeProto, op: str, attributes: Mapping[str, Any], source: str) -> None:
    """Make an operator another one, of one tensor."""
    made = helper.make_node(op, [source], list(node.output), name=node.name, **attributes)
    node.CopyFrom(made)
