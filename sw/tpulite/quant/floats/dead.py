"""Channels and constants that hold nothing, and operators whose results nothing reads."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tpulite.frontend.onnx.read.attributes import names_read
from tpulite.quant.floats.graph import Links, is_transposed

Overrides = dict[str, list[dict[str, Any]]]
"""Ranges of weights by their names, as ONNX Runtime's quantizer takes them."""

_NOTHING = 1e-20
"""Magnitude below which a constant is zero."""

_DEAD = 2.0**-20
"""Share of the largest weight below which a channel adds nothing that 8 bits of a result show."""


def flush_constants(graph: onnx.GraphProto) -> None:
    """Make zeros of numbers that are next to nothing."""
    for tensor in graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype == np.float32 and (small := (value != 0) & (np.abs(value) < _NOTHING)).any():
            flushed = np.where(small, np.float32(0), value)
            tensor.CopyFrom(numpy_helper.from_array(flushed, tensor.name))


def drop_unread(graph: onnx.GraphProto) -> None:
    """Take out operators whose results are neither read, by those of bodies too, nor outputs."""
    wanted = {value.name for value in graph.output}
    for node in list(graph.node)[::-1]:
        if wanted.intersection(node.output):
            wanted |= names_read(node)
        else:
            graph.node.remove(node)


def live_channels(graph: onnx.GraphProto) -> Overrides:
    """Return ranges of the channels of weights of which some are dead: those get a usual range.

    Their biases are then as fine as those of other channels.
    """
    overrides: Overrides = {}
    for name, axis, rows in channels_of_weights(graph):
        ends, dead = usual_ends(np.abs(rows).max(axis=1, initial=0))
        if dead.any():
            overrides[name] = ranges_of_channels(axis, ends)
    return overrides


def channels_of_weights(graph: onnx.GraphProto) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield names of constant weights, their axis of channels, and float64 [channels, others]."""
    links = Links(graph)
    for node in graph.node:
        axis = _channel_axis(node)
        weight = links.constants.get(node.input[1]) if axis is not None else None
        if axis is None or weight is None or weight.ndim <= axis:
            continue
        rows = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)
        yield node.input[1], axis, rows.astype(np.float64)


def ranges_of_channels(axis: int, ends: np.ndarray) -> list[dict[str, Any]]:
    """Return what ONNX Runtime's quantizer is told of weights: the largest of each channel."""
    return [{"axis": axis, "rmin": -end, "rmax": end} for end in ends.astype(np.float32)]


def usual_ends(largest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of ranges of channels with these largest weights, and which are dead."""
    dead = largest <= _DEAD * largest.max(initial=0)
    usual = float(np.median(largest[~dead])) if not dead.all() else 1.0
    return np.where(dead, usual, largest), dead


def _channel_axis(node: onnx.NodeProto) -> int | None:
    """Return the axis of weights along which an operator has channels of its result."""
    if node.op_type == "Gemm":
        return 0 if is_transposed(node) else 1
    return {"Conv": 0, "MatMul": 1}.get(node.op_type)
