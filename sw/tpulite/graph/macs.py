"""Multiplications of a node, padding counted.

Operators that graphs do not know are told by what files call them, so that the CPU's share of a
network is not understated. Nodes with graphs of their own (loops, branches) have an attribute of
their reader, ``macs``: what one run of these takes, with as many iterations as the file says.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpulite.graph.graph import Graph, Node

Shape = tuple[int, ...]
Rule = Callable[[Sequence[Shape], Shape, Mapping[str, Any]], int]


_BESIDE = ("add", "reshape", "transpose")
"""What readers put beside the product of an operator, under its name."""


def macs_of(node: Node, graph: Graph) -> int:
    """Return the multiplications of a node in a run, as far as they are known; see `counted`."""
    if "macs" in node.attributes:
        return int(node.attributes["macs"])
    inputs = [graph.tensors[name].shape if name else () for name in node.inputs]
    output = graph.tensors[node.outputs[0]].shape if node.outputs else ()
    if node.op in _BESIDE:
        return 0
    operator = node.op if node.op in _RULES else node.source or node.op
    return macs_of_operator(operator, inputs, output, node.attributes)


def macs_of_operator(
    operator: str, inputs: Sequence[Shape], output: Shape, attributes: Mapping[str, Any]
) -> int:
    """Return the multiplications of an operator, 0 if it multiplies no matrices.

    Parameters
    ----------
    operator : str
        What graphs or files call it, in letters of any case.
    inputs : sequence of tuple of int
        Shapes of its inputs, ``()`` for one that is missing or unknown.
    output : tuple of int
        Shape of its first output.
    """
    rule = _RULES.get(operator.lower())
    if rule is None:
        return 0
    try:
        return rule(inputs, output, attributes)
    except (IndexError, ZeroDivisionError):  # shapes that are missing, or of a strange rank
        return 0


def counted(node: Node) -> bool:
    """Return whether :func:`macs_of` is all that a node takes.

    It is less for loops whose iterations the file does not fix (one is counted), and nothing is
    known of operators that an application has registered with a library.
    """
    if node.source.lower() in _RULES:
        return True
    return not (node.attributes.get("open_loop") or node.source.startswith("CUSTOM "))


def _rows(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    """Weights [output channels, ...]: each output sums over all other axes."""
    return math.prod(output) * math.prod(_weights(inputs)[1:])


def _quantized_rows(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    """QLinearConv: x, scale, zero point, weights as for :func:`_rows`; or read as floats."""
    literal = len(inputs) > 3
    return math.prod(output) * math.prod((inputs[3] if literal else _weights(inputs))[1:])


def _windows(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    return math.prod(output) * math.prod(_weights(inputs)[:-1])


def _file_windows(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    return math.prod(output) * math.prod(_weights(inputs)[1:-1])


def _matrices(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    return math.prod(output) * inputs[0][-1]


def _gemm(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    """Return the products of a matrix [m, k] or [k, m] with another one."""
    return math.prod(inputs[0]) * output[-1]


def _blocks(inputs: Sequence[Shape], output: Shape, attributes: Mapping[str, Any]) -> int:
    """MatMulNBits: weights are packed; the attribute K says how many numbers a column has."""
    return math.prod(output) * int(attributes.get("K", inputs[0][-1]))


def _attention(inputs: Sequence[Shape], output: Shape, attributes: Mapping[str, Any]) -> int:
    """Attention of com.microsoft: x [batch, n, hidden], weights [hidden, 3 * hidden]; or ONNX's."""
    if len(_weights(inputs)) > 2:
        return _of_heads(4)(inputs, output, attributes)
    batch, n, hidden = inputs[0]
    return batch * n * hidden * (_weights(inputs)[-1] + 2 * n)


def _of_heads(past: int) -> Rule:
    """Scores and their product with values: tokens of keys and of those of the past."""

    def rule(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
        keys = inputs[1][-2] if inputs[1] else output[-2]
        before = inputs[past][-2] if len(inputs) > past and inputs[past] else 0
        return 2 * math.prod(output) * (keys + before)

    return rule


def _einsum(inputs: Sequence[Shape], output: Shape, attributes: Mapping[str, Any]) -> int:
    """Return the product of the extents of all letters, if there are two operands or more."""
    terms = str(attributes.get("equation", "")).replace(" ", "").partition("->")[0].split(",")
    if len(terms) < 2 or any(len(t) != len(s) for t, s in zip(terms, inputs, strict=False)):
        return 0
    extents = dict(zip("".join(terms), (e for shape in inputs for e in shape), strict=False))
    return math.prod(extents.values())


def _transposed(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    """TRANSPOSE_CONV: weights [O, kh, kw, I]; elements of its third input meet all kernels."""
    channels, *kernel, _channels = _weights(inputs)
    return math.prod(inputs[2]) * channels * math.prod(kernel)


def _transposed_inputs(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    """Weights [O, kh, kw, I]: each element of the input meets all kernels."""
    return math.prod(inputs[0]) * math.prod(_weights(inputs)[:-1])


def _transposed_first(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    """ConvTranspose: weights [I, O, kh, kw]."""
    return math.prod(inputs[0]) * math.prod(_weights(inputs)[1:])


def _recurrent(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    """Matrices of gates, each for every step of every sequence."""
    matrices = (shape for shape in inputs[1:9] if len(shape) == 2)
    return math.prod(inputs[0][:-1]) * sum(math.prod(shape) for shape in matrices)


def _onnx_recurrent(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    """RNN, GRU and LSTM of ONNX: x [..., features], W and R [directions, gates, ...]."""
    return math.prod(inputs[0][:-1]) * sum(math.prod(shape) for shape in inputs[1:3])


def _filtered(inputs: Sequence[Shape], output: Shape, _: Mapping[str, Any]) -> int:
    """SVDF: a filter over features, then one over time."""
    return math.prod(inputs[0][:-1]) * (math.prod(_weights(inputs)) + math.prod(inputs[2]))


def _weights(inputs: Sequence[Shape]) -> Shape:
    """Return the shape of the second input; without one there is no product."""
    if not inputs[1]:
        raise IndexError
    return inputs[1]


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("conv", "conv_2d", "convinteger", "fusedconv", "nhwcfusedconv"), _rows),
    **dict.fromkeys(("dense", "fully_connected"), _rows),
    "qlinearconv": _quantized_rows,
    "conv_3d": _windows,
    "depthwise": _windows,
    "depthwise_conv_2d": _file_windows,
    "transposed_conv": _transposed_inputs,
    "transpose_conv": _transposed,
    "convtranspose": _transposed_first,
    **dict.fromkeys(("batch_matmul", "matmul", "matmulinteger", "qlinearmatmul"), _matrices),
    **dict.fromkeys(("matmulintegertofloat", "dynamicquantizematmul"), _matrices),
    **dict.fromkeys(("gemm", "fusedgemm", "qgemm", "fusedmatmul"), _gemm),
    "matmulnbits": _blocks,
    **dict.fromkeys(("attention", "qattention"), _attention),
    "groupqueryattention": _of_heads(3),
    "multiheadattention": _of_heads(6),
    "einsum": _einsum,
    "svdf": _filtered,
    **dict.fromkeys(("unidirectional_sequence_lstm", "unidirectional_sequence_rnn"), _recurrent),
    "integer_lstm": _recurrent,
    **dict.fromkeys(("bidirectional_sequence_lstm", "bidirectional_sequence_rnn"), _recurrent),
    **dict.fromkeys(("lstm", "gru", "rnn", "dynamicquantizelstm"), _onnx_recurrent),
}
