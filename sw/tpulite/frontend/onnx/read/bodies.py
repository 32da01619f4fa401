"""Multiplications in the graphs inside ONNX nodes: loops, scans and branches."""

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import numpy_helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.frontend.onnx.read.tensor import type_of
from tpulite.graph.macs import macs_of_operator

Shapes = Mapping[str, tuple[int, ...] | None]


def body_attributes(
    node: onnx.NodeProto, shapes: Shapes, constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a node with graphs of its own takes, as attributes.

    Parameters
    ----------
    node : NodeProto
        The node.
    shapes : mapping of str to tuple of int or None
        Shapes of tensors outside, None where a run decides.
    constants : mapping of str to ndarray
        Tensors outside that are known.

    Returns
    -------
    dict
        ``macs``, those of the longest branch or of all iterations, and ``open_loop`` if only a run
        knows how many these are (one is counted); nothing for nodes without a graph.
    """
    bodies = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    if not bodies:
        return {}
    found = [_graph_macs(body, shapes, constants) for body in bodies]
    macs, is_open = max(count for count, _ in found), any(loops for _, loops in found)
    count = _iterations(node, shapes, constants)
    return {"macs": macs * (1 if count is None else count)} | (
        {"open_loop": 1} if is_open or count is None else {}
    )


def _graph_macs(
    graph: onnx.GraphProto, outer: Shapes, known: Mapping[str, Any]
) -> tuple[int, bool]:
    """Return the multiplications of a graph, and whether a loop in it is open."""
    values = (*graph.value_info, *graph.output, *graph.input)
    shapes = {**outer, **{value.name: type_of(value)[1] for value in values}}
    constants = {**known, **{t.name: numpy_helper.to_array(t) for t in graph.initializer}}
    shapes |= {name: value.shape for name, value in constants.items()}
    total, is_open = 0, False
    for node in graph.node:
        inner = body_attributes(node, shapes, constants)
        inputs = [shapes.get(name) or () for name in node.input]
        output = shapes.get(node.output[0]) or () if node.output else ()
        attributes = attributes_of(node)
        total += inner.get("macs", macs_of_operator(node.op_type, inputs, output, attributes))
        is_open |= "open_loop" in inner
    return total, is_open


def _iterations(node: onnx.NodeProto, shapes: Shapes, constants: Mapping[str, Any]) -> int | None:
    """Return how often the body runs; None if only a run knows."""
    if node.op_type == "Scan":
        count = next(a.i for a in node.attribute if a.name == "num_scan_inputs")
        shape = shapes.get(node.input[-count]) if count else None
        return shape[0] if shape else None
    if node.op_type != "Loop":
        return 1
    count, condition = node.input[0], node.input[1] if len(node.input) > 1 else ""
    if count in constants and not condition:
        return int(constants[count].reshape(-1)[0])
    return None
