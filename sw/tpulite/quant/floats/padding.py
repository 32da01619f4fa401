"""Rows of outputs that belong to padding: nothing reads them, and no error in them matters."""

from collections.abc import Mapping

import numpy as np
import onnx

from tpulite.quant.floats.graph import MOVING, Links

_PRODUCTS = ("MatMul", "Gemm", "Einsum", "Conv")
_MASKS = {"Attention": 3, "MultiHeadAttention": 4, "GroupQueryAttention": 5}
"""Which input of an attention as one operator says which tokens are padding."""

_EMBEDDING_MASK = 7
"""Which input of EmbedLayerNormalization becomes its output of masks."""

_MASKED = 2
"""Axes of a mask: samples and tokens."""


def padding_input(graph: onnx.GraphProto) -> str | None:
    """Return the input that says which tokens are padding: masks of attention depend on it."""
    links = Links(graph)
    inputs = {
        value.name
        for value in graph.input
        if len(value.type.tensor_type.shape.dim) == _MASKED
        and value.type.tensor_type.elem_type != onnx.TensorProto.FLOAT
    }
    found: set[str] = set()
    for softmax in (node for node in graph.node if node.op_type == "Softmax"):
        node = links.writer.get(softmax.input[0])
        while node is not None and node.op_type in MOVING:
            node = links.writer.get(node.input[0])
        for name in node.input if node is not None and node.op_type in ("Add", "Where") else ():
            read, products = _sources(name, links)
            found |= set() if products else inputs & read
    for node in graph.node:
        for name in node.input[_MASKS.get(node.op_type, len(node.input)) :][:1]:
            found |= inputs & _sources(name, links)[0]
    return found.pop() if len(found) == 1 else None


def _sources(name: str, links: Links) -> tuple[set[str], bool]:
    """Return on whose numbers a tensor depends, and whether products are among them."""
    read, todo, products = {name}, [name], False
    while todo:
        node = links.writer.get(todo.pop())
        if node is not None and node.op_type not in ("Shape", "Size"):
            products |= node.op_type in _PRODUCTS
            inputs = list(node.input)
            if node.op_type == "EmbedLayerNormalization":
                inputs = inputs[_EMBEDDING_MASK : _EMBEDDING_MASK + 1]
            todo += [x for x in inputs if x not in read]
            read |= {*inputs}
    return read, products


def live_rows(value: np.ndarray, feed: Mapping[str, np.ndarray], mask: str | None) -> np.ndarray:
    """Return an output without the rows of padding, if it has a row for each token."""
    kept = None if mask is None else np.asarray(feed[mask])
    if kept is None or value.ndim <= _MASKED or value.shape[:_MASKED] != kept.shape:
        return value
    return value[kept != 0] if kept.any() else value


def live_tokens(value: np.ndarray, feed: Mapping[str, np.ndarray], mask: str | None) -> np.ndarray:
    """Return a tensor without the rows of padding, if the axis before its last one is tokens."""
    kept = None if mask is None else np.asarray(feed[mask]).reshape(-1) != 0
    if kept is None or not kept.any() or value.ndim < 2 or value.shape[-2] != kept.size:
        return value
    return value[..., kept, :]
