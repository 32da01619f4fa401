"""Small graphs, written down."""

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, Tensor

__all__ = ["activation", "constant", "graph_of", "node"]


def quantization(scale, zero_point, axis=None) -> Quantization:
    """Return a quantization from numbers or lists of them."""
    return Quantization(
        np.atleast_1d(np.asarray(scale, np.float32)),
        np.atleast_1d(np.asarray(zero_point, np.int64)),
        axis,
    )


def activation(name, shape, scale=0.05, zero_point=0, dtype="int8") -> Tensor:
    """Return an activation; of floats if the scale is None."""
    if scale is None:
        return Tensor(name, tuple(shape), "float32")
    return Tensor(name, tuple(shape), dtype, quantization(scale, zero_point))


def constant(name, data, scale=None, zero_point=0, axis=None) -> Tensor:
    """Return a constant."""
    data = np.asarray(data)
    q = None if scale is None else quantization(scale, zero_point, axis)
    return Tensor(name, data.shape, str(data.dtype), q, data)


def node(op, inputs, output, **attributes) -> Node:
    """Return a node that is called like its output."""
    return Node(output, op, tuple(inputs.split()), (output,), attributes, op.upper())


def graph_of(nodes, tensors, inputs, outputs, file_format="tflite") -> Graph:
    """Return a graph; names are separated by blanks."""
    return Graph(
        "net",
        tuple(nodes),
        {tensor.name: tensor for tensor in tensors},
        tuple(inputs.split()),
        tuple(outputs.split()),
        file_format,
    )
