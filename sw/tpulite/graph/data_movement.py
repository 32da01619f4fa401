"""Operators that move elements and compute nothing: exact whatever the integers mean."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tpulite.graph.graph import Node, Tensor

__all__ = ["DATA_MOVEMENT"]

Rule = Callable[[Node, list[np.ndarray], list[Tensor]], list[np.ndarray]]
"""Computes the outputs of a node from its inputs and what its outputs are to be."""


def _reshape(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [values[0].reshape(outputs[0].shape)]


def _transpose(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [values[0].transpose(node.attributes.get("perm") or node["permutation"])]


def _concat(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.concatenate(values, axis=node["axis"])]


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


def _cast(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [values[0].astype(outputs[0].dtype)]


def _argmax(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.asarray(values[0].argmax(axis=node["axis"]))]  # the first of equal ones


_COMMON: Mapping[str, Rule] = {
    "argmax": _argmax,
    "cast": _cast,
    "concat": _concat,
    "gather": _gather,
    "pack": _pack,
    "reshape": _reshape,
    "transpose": _transpose,
}

DATA_MOVEMENT: Mapping[str, Mapping[str, Rule]] = {
    "tflite": {
        **_COMMON,
        "slice": _slice,
        "split": _split,
        "strided_slice": _strided_slice,
    },
    "onnx": _COMMON,
}
"""How each operator of a format moves elements."""
