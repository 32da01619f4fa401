"""Graphs of one node or a few, written in a line."""

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, Tensor

__all__ = ["chain", "meaning", "single", "tensor"]


def meaning(scale: float, zero_point: int = 0) -> Quantization:
    """Return one scale for all channels."""
    return Quantization(np.array([scale], np.float32), np.array([zero_point], np.int64))


def tensor(name, shape, dtype="float32", quantization=None, data=None) -> Tensor:
    """Describe a tensor; ``quantization`` is None, or scale and zero point."""
    q = None if quantization is None else meaning(*quantization)
    return Tensor(name, tuple(shape), dtype, q, data)


def single(op, inputs, outputs, attributes=None, *, file_format="tflite") -> Graph:
    """Make a graph of one node; its inputs are the tensors without data."""
    node = Node(
        f"{op}_0",
        op,
        tuple(x.name for x in inputs),
        tuple(y.name for y in outputs),
        attributes or {},
        op.upper(),
    )
    return chain([node], [*inputs, *outputs], file_format=file_format)


def chain(nodes, tensors, *, file_format="tflite") -> Graph:
    """Make a graph of nodes; its inputs are what no node computes, its outputs what none reads."""
    computed = {name for node in nodes for name in node.outputs}
    read = {name for node in nodes for name in node.inputs}
    return Graph(
        "test",
        tuple(nodes),
        {x.name: x for x in tensors},
        tuple(x.name for x in tensors if x.data is None and x.name not in computed),
        tuple(x.name for x in tensors if x.name in computed and x.name not in read),
        file_format,
    )
