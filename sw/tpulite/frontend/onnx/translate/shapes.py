"""Operators of ONNX that move numbers, reduce them, or leave them alone."""

import math
from collections.abc import Sequence

import numpy as np

from tpulite.frontend.onnx.read.model import OnnxNode
from tpulite.frontend.onnx.translate.importer import UNKNOWN_SHAPE, Importer, Rule
from tpulite.frontend.onnx.translate.movement import pick_padded

__all__ = ["SHAPE_RULES"]


_COMPUTED = "its shape is computed at run time"


def _identity(graph: Importer, node: OnnxNode) -> str | None:
    if any(graph.is_read(name) for name in node.outputs[1:]):
        return "its mask output is used"
    graph.alias(node.outputs[0], node.inputs[0])
    return None


def _reshape(graph: Importer, node: OnnxNode) -> str | None:
    """Emit any operator that keeps the elements and their order."""
    shape = graph.shape(node.outputs[0])
    if shape is None or graph.shape(node.inputs[0]) is None:
        return UNKNOWN_SHAPE
    graph.emit("reshape", node.inputs[:1], node.outputs, shape=shape)
    return None


def _transpose(graph: Importer, node: OnnxNode) -> str | None:
    shape = graph.shape(node.inputs[0])
    if shape is None:
        return UNKNOWN_SHAPE
    perm = tuple(node.attributes.get("perm", range(len(shape))[::-1]))
    graph.emit("transpose", node.inputs, node.outputs, perm=perm)
    return None


def _concat(graph: Importer, node: OnnxNode) -> str | None:
    shape = graph.shape(node.outputs[0])
    if shape is None or any(graph.shape(name) is None for name in node.inputs):
        return UNKNOWN_SHAPE
    axis = node.attributes["axis"] % len(shape)
    graph.emit("concat", node.inputs, node.outputs, axis=axis, activation="none")
    return None


def _pad(graph: Importer, node: OnnxNode) -> str | None:
    x = node.inputs[0]
    shape = graph.shape(x)
    pads: Sequence[int] | np.ndarray | None = node.attributes.get("pads")
    if len(node.inputs) > 1:
        pads = graph.constant(node.inputs[1])
    if not shape:
        return UNKNOWN_SHAPE
    if pads is None:
        return _COMPUTED
    axes = list(range(len(shape)))
    if len(node.inputs) > 3 and node.inputs[3]:
        chosen = graph.constant(node.inputs[3])
        if chosen is None:
            return _COMPUTED
        axes = [int(axis) % len(shape) for axis in chosen]
    before = dict(zip(axes, (int(p) for p in pads[: len(axes)]), strict=True))
    after = dict(zip(axes, (int(p) for p in pads[len(axes) :]), strict=True))
    if (mode := node.attributes.get("mode", "constant")) != "constant":
        around = {axis: (before[axis], after[axis]) for axis in axes}
        return pick_padded(graph, node, around, mode)
    value = float(node.attributes.get("value", 0.0))
    if len(node.inputs) > 2 and node.inputs[2]:
        constant = graph.known(node.inputs[2])
        if constant is None:
            return _COMPUTED
        value = constant.item(0)
    around = tuple((before.get(axis, 0), after.get(axis, 0)) for axis in range(len(shape)))
    if min(map(min, around)) < 0:
        return "its padding is negative"
    if graph.dtype(x).startswith(("int", "uint")):
        value = int(value)
    graph.emit("pad", [x], node.outputs, around=around, value=value)
    return None


REDUCTIONS = {
    "ReduceMax": "reduce_max",
    "ReduceMean": "mean",
    "ReduceMin": "reduce_min",
    "ReduceSum": "sum",
}
"""Operators that reduce axes, and what they are in a graph."""


def _reduction(graph: Importer, node: OnnxNode) -> str | None:
    x = node.inputs[0]
    shape = graph.shape(x)
    axes = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = graph.constant(node.inputs[1])
        if axes is None:
            return _COMPUTED
    if shape is None:
        return UNKNOWN_SHAPE
    picks = node.op in ("ReduceMax", "ReduceMin")  # one of the integers, whatever they mean
    if not picks and (reason := graph.obstacle(x)):
        return reason
    if axes is None or not len(axes):
        if node.attributes.get("noop_with_empty_axes", 0):
            return "it has no axes"
        axes = np.arange(len(shape))
    graph.emit(
        REDUCTIONS[node.op],
        [x],
        node.outputs,
        axes=tuple(sorted(int(axis) % len(shape) for axis in axes)),
        keep_dims=node.attributes.get("keepdims", 1) == 1,
    )
    return None


def _softmax(graph: Importer, node: OnnxNode) -> str | None:
    shape = graph.shape(node.inputs[0])
    old = graph.model.opset < 13
    axis = node.attributes.get("axis", 1 if old else -1)
    if not shape:
        return UNKNOWN_SHAPE
    axis %= len(shape)
    op = "softmax" if node.op == "Softmax" else "log_softmax"
    if not old or axis == len(shape) - 1:
        graph.emit(op, node.inputs, node.outputs, axis=axis)
        return None
    # Over all axes from this one on.
    x, matrix = node.inputs[0], (math.prod(shape[:axis]), math.prod(shape[axis:]))
    rows, result = (graph.temporary(role, matrix, graph.dtype(x)) for role in ("rows", "shares"))
    graph.emit("reshape", [x], [rows], shape=matrix)
    graph.emit(op, [rows], [result], axis=1)
    graph.emit("reshape", [result], node.outputs, shape=shape)
    return None


def _argmax(graph: Importer, node: OnnxNode) -> str | None:
    shape = graph.shape(node.inputs[0])
    if not shape:
        return UNKNOWN_SHAPE
    if node.attributes.get("select_last_index", 0):
        return "it selects the last of several maxima"
    axis = node.attributes.get("axis", 0) % len(shape)
    keep_dims = node.attributes.get("keepdims", 1) == 1
    graph.emit("argmax", node.inputs, node.outputs, axis=axis, keep_dims=keep_dims)
    return None


SHAPE_RULES: dict[str, Rule] = {
    "ArgMax": _argmax,
    "Concat": _concat,
    "Dropout": _identity,
    "Flatten": _reshape,
    "Identity": _identity,
    "LogSoftmax": _softmax,
    "Pad": _pad,
    **dict.fromkeys(REDUCTIONS, _reduction),
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
