"""Multiplications of a node, padding counted."""

import math

from tpulite.graph.graph import Graph, Node

__all__ = ["macs_of"]


def macs_of(node: Node, graph: Graph) -> int:
    """Return the multiplications of operators that multiply matrices, else 0.

    Those that graphs do not know are told by what files call them, so that the host's share of a
    network is not understated.
    """
    shapes = [graph.tensors[name].shape if name else () for name in node.inputs]
    output = math.prod(graph.tensors[node.outputs[0]].shape) if node.outputs else 0
    rule = _RULES.get(node.op) or _RULES.get((node.source or node.op).lower())
    return rule(shapes, output) if rule and len(shapes) > 1 and all(shapes[:2]) else 0


Shapes = list[tuple[int, ...]]


def _rows(shapes: Shapes, output: int) -> int:
    """Weights [output channels, ...]: each output sums over all other axes."""
    return output * math.prod(shapes[1][1:])


def _windows(shapes: Shapes, output: int) -> int:
    return output * math.prod(shapes[1][:-1])


def _file_windows(shapes: Shapes, output: int) -> int:
    return output * math.prod(shapes[1][1:-1])


def _matrices(shapes: Shapes, output: int) -> int:
    return output * shapes[0][-1]


def _transposed(shapes: Shapes, output: int) -> int:
    """TRANSPOSE_CONV: weights [O, kh, kw, I]; elements of its third input meet all kernels."""
    channels, *kernel, _ = shapes[1]
    image = math.prod(shapes[2]) if len(shapes) > 2 else 0
    return image * channels * math.prod(kernel)


def _transposed_inputs(shapes: Shapes, output: int) -> int:
    """Weights [O, kh, kw, I]: each element of the input meets all kernels."""
    return math.prod(shapes[0]) * math.prod(shapes[1][:-1])


def _transposed_first(shapes: Shapes, output: int) -> int:
    """ConvTranspose: weights [I, O, kh, kw]."""
    return math.prod(shapes[0]) * math.prod(shapes[1][1:])


def _recurrent(shapes: Shapes, output: int) -> int:
    """LSTM: eight matrices, each for every step of every sequence."""
    steps = math.prod(shapes[0][:-1])
    return steps * sum(math.prod(shape) for shape in shapes[1:9] if len(shape) == 2)


def _filtered(shapes: Shapes, output: int) -> int:
    """SVDF: a filter over features, then one over time."""
    time = math.prod(shapes[2]) if len(shapes) > 2 else 0
    return math.prod(shapes[0][:-1]) * (math.prod(shapes[1]) + time)


_RULES = {
    "conv": _rows,
    "conv_2d": _rows,
    "conv_3d": _windows,
    "dense": _rows,
    "fully_connected": _rows,
    "depthwise": _windows,
    "depthwise_conv_2d": _file_windows,
    "transposed_conv": _transposed_inputs,
    "transpose_conv": _transposed,
    "convtranspose": _transposed_first,
    "batch_matmul": _matrices,
    "matmul": _matrices,
    "svdf": _filtered,
    "unidirectional_sequence_lstm": _recurrent,
}
