"""Operators of ONNX that move numbers, reduce them, or leave them alone."""

import math
from collections.abc import Sequence

import numpy as np

from tpulite.frontend.onnx.read.model import OnnxNode
from tpulite.frontend.onnx.translate.importer import Importer, Rule, UncoveredError
from tpulite.frontend.onnx.translate.movement import pick_padded

_COMPUTED = "its shape is computed at run time"


def _identity(graph: Importer, node: OnnxNode) -> None:
    if any(graph.is_read(name) for name in node.outputs[1:]):
        raise UncoveredError("its mask output is used")
    graph.alias(node.outputs[0], node.inputs[0])


def _reshape(graph: Importer, node: OnnxNode) -> None:
    """Emit any operator that keeps the elements and their order."""
    shape = graph.known_shape(node.outputs[0])
    graph.known_shape(node.inputs[0])
    _keep_meaning(graph, node)
    graph.emit("reshape", node.inputs[:1], node.outputs, shape=shape)


def _transpose(graph: Importer, node: OnnxNode) -> None:
    shape = graph.known_shape(node.inputs[0])
    perm = tuple(node.attributes.get("perm", range(len(shape))[::-1]))
    _keep_meaning(graph, node)
    graph.emit("transpose", node.inputs, node.outputs, perm=perm)


def _keep_meaning(graph: Importer, node: OnnxNode) -> None:
    """Let integers that are moved mean what they meant, before an operator behind says more."""
    quantization = graph.quantization(node.inputs[0])
    if quantization is not None and quantization.axis is None:
        graph.quantize_tensor(node.outputs[0], quantization)


def _concat(graph: Importer, node: OnnxNode) -> None:
    shape, *_ = map(graph.known_shape, (node.outputs[0], *node.inputs))
    axis = node.attributes["axis"] % len(shape)
    graph.emit("concat", node.inputs, node.outputs, axis=axis, activation="none")


def _pad(graph: Importer, node: OnnxNode) -> None:
    x = node.inputs[0]
    shape = graph.known_shape(x, rank=1)
    pads: Sequence[int] | np.ndarray | None = node.attributes.get("pads")
    if len(node.inputs) > 1:
        pads = graph.constant(node.inputs[1])
    if pads is None:
        raise UncoveredError(_COMPUTED)
    axes = list(range(len(shape)))
    if len(node.inputs) > 3 and node.inputs[3]:
        chosen = graph.constant(node.inputs[3])
        if chosen is None:
            raise UncoveredError(_COMPUTED)
        axes = [int(axis) % len(shape) for axis in chosen]
    before = dict(zip(axes, (int(p) for p in pads[: len(axes)]), strict=True))
    after = dict(zip(axes, (int(p) for p in pads[len(axes) :]), strict=True))
    if (mode := node.attributes.get("mode", "constant")) != "constant":
        around = {axis: (before[axis], after[axis]) for axis in axes}
        pick_padded(graph, node, around, mode)
        return
    value = float(node.attributes.get("value", 0.0))
    if len(node.inputs) > 2 and node.inputs[2]:
        constant = graph.known(node.inputs[2])
        if constant is None:
            raise UncoveredError(_COMPUTED)
        value = constant.item(0)
    around = tuple((before.get(axis, 0), after.get(axis, 0)) for axis in range(len(shape)))
    if min(map(min, around)) < 0:
        raise UncoveredError("its padding is negative")
    if graph.dtype(x).startswith(("int", "uint")):
        value = int(value)
    graph.emit("pad", [x], node.outputs, around=around, value=value)


REDUCTIONS = {
    "ReduceMax": "reduce_max",
    "ReduceMean": "mean",
    "ReduceMin": "reduce_min",
    "ReduceSum": "sum",
}
"""Operators that reduce axes, and what they are in a graph."""


def _reduction(graph: Importer, node: OnnxNode) -> None:
    x = node.inputs[0]
    axes = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = graph.constant(node.inputs[1])
        if axes is None:
            raise UncoveredError(_COMPUTED)
    shape = graph.known_shape(x)
    picks = node.op in ("ReduceMax", "ReduceMin")  # one of the integers, whatever they mean
    if not picks:
        graph.check_numbers(x)
    if axes is None or not len(axes):
        if node.attributes.get("noop_with_empty_axes", 0):
            raise UncoveredError("it has no axes")
        axes = np.arange(len(shape))
    graph.emit(
        REDUCTIONS[node.op],
        [x],
        node.outputs,
        axes=tuple(sorted(int(axis) % len(shape) for axis in axes)),
        keep_dims=node.attributes.get("keepdims", 1) == 1,
    )


def _softmax(graph: Importer, node: OnnxNode) -> None:
    shape = graph.known_shape(node.inputs[0], rank=1)
    old = graph.model.opset < 13
    axis = node.attributes.get("axis", 1 if old else -1) % len(shape)
    op = "softmax" if node.op == "Softmax" else "log_softmax"
    if not old or axis == len(shape) - 1:
        graph.emit(op, node.inputs, node.outputs, axis=axis)
        return
    # Over all axes from this one on.
    x, matrix = node.inputs[0], (math.prod(shape[:axis]), math.prod(shape[axis:]))
    rows, result = (graph.temporary(role, matrix, graph.dtype(x)) for role in ("rows", "shares"))
    graph.emit("reshape", [x], [rows], shape=matrix)
    graph.emit(op, [rows], [result], axis=1)
    graph.emit("reshape", [result], node.outputs, shape=shape)


def _argmax(graph: Importer, node: OnnxNode) -> None:
    shape = graph.known_shape(node.inputs[0], rank=1)
    if node.attributes.get("select_last_index", 0):
        raise UncoveredError("it selects the last of several maxima")
    axis = node.attributes.get("axis", 0) % len(shape)
    keep_dims = node.attributes.get("keepdims", 1) == 1
    graph.emit("argmax", node.inputs, node.outputs, axis=axis, keep_dims=keep_dims)


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
