"""Operators that move elements and compute nothing: exact whatever the integers mean."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tpulite.graph.graph import Node, Tensor

__all__ = ["DATA_MOVEMENT", "pad_image"]

Rule = Callable[[Node, list[np.ndarray], list[Tensor]], list[np.ndarray]]
"""Computes the outputs of a node from its inputs and what its outputs are to be."""


def pad_image(x: np.ndarray, padding: tuple[int, int, int, int], value: float) -> np.ndarray:
    """Add ``value`` around activations; padding is (top, left, bottom, right)."""
    top, left, bottom, right = padding
    margins = ((0, 0), (top, bottom), (left, right), (0, 0))
    return np.pad(x, margins, constant_values=value)


def _reshape(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [values[0].reshape(outputs[0].shape)]


def _transpose(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [values[0].transpose(node.attributes.get("perm") or node["permutation"])]


def _concat(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.concatenate(values, axis=node["axis"])]


def _pad(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [pad_image(values[0], node["padding"], node["value"])]


def _pack(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.stack(values, axis=node["axis"])]


def _gather(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    if node.attributes.get("batch_dims", 0):
        raise ValueError(f"batch_dims {node['batch_dims']} is not supported")
    return [np.take(values[0], values[1], axis=node["axis"])]


def _slice(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    """Cut a box out of a tensor: TFLite gives begin and size of each axis; -1 is all the rest."""
    begin, size = (array.reshape(-1).tolist() for array in values[1:3])
    box = [slice(b, None if n == -1 else b + n) for b, n in zip(begin, size, strict=True)]
    return [values[0][tuple(box)]]


def _slice_axes(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    """Cut a box as ONNX describes it: starts, ends, axes and steps, the last two optional."""
    x, starts, ends, *more = values
    axes = more[0] if more else range(len(starts))
    steps = more[1] if len(more) > 1 else np.ones(len(starts), int)
    box = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # The most negative integers mean: back to the first element and beyond.
        stop = None if step < 0 and end < -x.shape[axis] else int(end)
        box[axis] = slice(int(start), stop, int(step))
    return [x[tuple(box)]]


def _strided_slice(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    x, *bounds = values
    begin, end, step = (array.reshape(-1).tolist() for array in bounds)
    index: list[Any] = []
    for i in range(len(begin)):

        def has(mask: str, i: int = i) -> bool:
            return bool(node.attributes.get(mask, 0) >> i & 1)

        if has("ellipsis_mask"):
            index.append(...)
        elif has("new_axis_mask"):
            index.append(None)
        elif has("shrink_axis_mask"):
            index.append(begin[i])
        else:
            stop = begin[i] + end[i] if node.attributes.get("offset", 0) else end[i]
            start = None if has("begin_mask") else begin[i]
            index.append(slice(start, None if has("end_mask") else stop, step[i]))
    return [x[tuple(index)]]


def _split(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    """Cut along an axis: TFLite's first input."""
    axis, x = values
    return np.split(x, len(outputs), axis=int(axis.reshape(-1)[0]))


def _split_sizes(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    """Cut along an axis into the sizes of the outputs, as ONNX does."""
    axis = node.attributes.get("axis", 0)
    sizes = [tensor.shape[axis] for tensor in outputs]
    return np.split(values[0], np.cumsum(sizes)[:-1], axis=axis)


def _tile(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.tile(values[0], values[1].reshape(-1))]


def _cast(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [values[0].astype(outputs[0].dtype)]


def _shape(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.array(values[0].shape, outputs[0].dtype)]


def _argmax(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.asarray(values[0].argmax(axis=node["axis"]))]  # the first of equal ones


_COMMON: Mapping[str, Rule] = {
    "argmax": _argmax,
    "cast": _cast,
    "concat": _concat,
    "gather": _gather,
    "pack": _pack,
    "pad": _pad,
    "reshape": _reshape,
    "shape": _shape,
    "tile": _tile,
    "transpose": _transpose,
}

DATA_MOVEMENT: Mapping[str, Mapping[str, Rule]] = {
    "tflite": {
        **_COMMON,
        "expand_dims": _reshape,
        "slice": _slice,
        "split": _split,
        "squeeze": _reshape,
        "strided_slice": _strided_slice,
    },
    "onnx": {**_COMMON, "slice": _slice_axes, "split": _split_sizes},
}
"""How each operator of a format moves elements."""
