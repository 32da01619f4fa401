"""Folding of constants: what can be known before the network runs."""

import math
from dataclasses import replace

import numpy as np

from tpulite.graph.folded_bytes import FoldedBytes
from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.evaluate import evaluate
from tpulite.graph.passes.rewrite import rebuild, same_meaning


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes whose result follows from constants, or from shapes, by constants.

    ValueError if a node computes another shape than its tensor has, or cannot be computed at all,
    or if constants become too large; the message names the node.
    """
    tensors = dict(graph.tensors)
    stored = sum(x.data.nbytes for x in tensors.values() if x.data is not None)
    folded, kept = FoldedBytes(stored), []
    for node in graph.nodes:
        values = _fold(node, tensors, graph.format, folded)
        if values is None:
            kept.append(node)
        else:
            tensors.update(values)
    return rebuild(graph, kept, tensors)


def _fold(
    node: Node, tensors: dict[str, Tensor], file_format: str, folded: FoldedBytes
) -> dict[str, Tensor] | None:
    if not node.inputs or "" in node.inputs:
        return None
    inputs = [tensors[name] for name in node.inputs]
    outputs = [tensors[name] for name in node.outputs]
    if node.op != "shape" and any(tensor.data is None for tensor in inputs):
        return None
    if node.op == "concat" and not all(same_meaning(x, outputs[0]) for x in inputs):
        return None
    sizes = (math.prod(x.shape) * np.dtype(x.dtype).itemsize for x in outputs)
    folded.take(f"node {node.name!r} ({node.source or node.op})", sum(sizes))
    try:
        values = evaluate(node, inputs, outputs, file_format)
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(f"node {node.name!r} ({node.source or node.op}): {error}") from error
    if values is None:
        return None
    result = {}
    for tensor, value in zip(outputs, values, strict=True):
        if value.shape != tensor.shape or value.dtype != tensor.dtype:
            raise ValueError(
                f"node {node.name!r} ({node.source or node.op}): its output must be {value.dtype} "
                f"{list(value.shape)}, not {tensor.dtype} {list(tensor.shape)}"
            )
        value.setflags(write=False)
        result[tensor.name] = replace(tensor, data=value)
    return result
