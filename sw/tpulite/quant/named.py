"""Expressions that are a function with a name: what a file writes with several operators."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization
from tpulite.quant.exactness.ort import evaluate_steps
from tpulite.quant.exactness.real import real_function

_NAMES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("gelu", {"approximate": False}),
    ("gelu", {"approximate": True}),
    ("hard_swish", {}),
    ("rsqrt", {}),
)
"""Functions that LiteRT has and exporters write with several operators."""

_CLOSE = 1e-5
"""How far float32 is from a function, as a share of results or of 1: its rounding, and no more."""


def name_functions(graph: Graph) -> Graph:
    """Return a network whose expressions are functions of LiteRT where they are the same.

    They are compared for all integers of the input, except where either is not finite.
    """
    nodes = [_named(graph, node) if node.op == "expression" else node for node in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


def _named(graph: Graph, node: Node) -> Node:
    tensor = graph.tensors[node.inputs[0]]
    if not isinstance(tensor.quantization, Quantization):
        return node
    limits = np.iinfo(tensor.dtype)
    x = tensor.quantization.real(np.arange(limits.min, limits.max + 1)).astype(np.float32)
    found, _ = evaluate_steps(node["steps"], x)
    for op, attributes in _NAMES:
        if _same(found, _function(op, attributes), x):
            return replace(node, op=op, attributes=dict(attributes))
    return node


def _function(op: str, attributes: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    if op == "rsqrt":
        return lambda x: 1 / np.sqrt(x)
    return real_function(op, attributes)


def _same(found: np.ndarray, function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        wanted = np.asarray(function(x), np.float64)
    known = np.isfinite(found) & np.isfinite(wanted)
    gaps = np.abs(found[known].astype(np.float64) - wanted[known])
    enough = known.sum() >= x.size // 2 or known[x > 0].all()
    return bool(enough and (gaps <= _CLOSE * np.maximum(1, np.abs(wanted[known]))).all())
