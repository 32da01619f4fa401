"""Softmax of integers over channels, where the bits are those of sums of integers."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.numerics import INT8
from tpulite.golden.ops import softmax
from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.layers import Conv, Lut, Softmax
from tpulite.graph.requantization import IDENTITY
from tpulite.quant.exactness.softmax import FIXED_POINT, fixed_point_exponentials
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.own import is_own
from tpulite.quant.tensors import INT8_BOUNDS, UnsupportedError

_DIFFERENCES = np.array([[[[1, -1], [-1, 1]]]], np.int8)
"""Weights of a convolution whose channels are each of two less the other one."""


def lower_softmax(node: Node, context: GraphContext) -> None:
    """Lower a softmax over channels; over two it is a table of their difference, if that is exact.

    Raises
    ------
    UnsupportedError
        If its bits are not those of integers.
    """
    if context.exactness not in FIXED_POINT:
        raise UnsupportedError(f"softmax of {context.exactness} sums in floats")
    x, y = (context.tensor(name) for name in (node.inputs[0], node.outputs[0]))
    if not is_own(node, context.graph, context.exactness):
        raise UnsupportedError(
            "the output of softmax must have scale 1/256 and the lowest zero point"
        )
    if node.attributes.get("axis", -1) % len(x.shape) != len(x.shape) - 1:
        raise UnsupportedError("its axis is not the last one")
    assert x.shape == y.shape
    context.read(node.inputs[0])
    context.write(node.outputs[0])
    words = _words(node, x)
    source, target = node.inputs[0], node.outputs[0]
    table = _shares_of_differences(words) if _is_of_two(x) else None
    if table is None:
        context.emit(Softmax, node.name, (source,), target, words=words)
        return
    name = context.declare_like(source, f"{node.name}/differences")
    context.emit(Conv, name, (source,), name, weight=_DIFFERENCES, requantization=IDENTITY)
    context.emit(Lut, node.name, (name,), target, table=table)


def _is_of_two(tensor: Tensor) -> bool:
    return tensor.shape[-1:] == _DIFFERENCES.shape[2:3]


def _words(node: Node, x: Tensor) -> NDArray[np.int32]:
    """Return the exponentials of the differences of a softmax's scores."""
    assert x.quantization is not None
    scale, beta = float(x.quantization.scale[0]), float(node.attributes.get("beta", 1.0))
    return fixed_point_exponentials(scale, beta).astype(np.int32)


def _shares_of_differences(words: NDArray[np.int32]) -> NDArray[np.int8] | None:
    """Return the share of one of two scores for each difference from the other one.

    Differences are clamped to 8 bits. None if a clamped one has another share; all pairs are tried.
    """
    scores = np.arange(INT8[0], INT8[-1] + 1)
    pairs = np.stack(np.meshgrid(scores, scores, indexing="ij"), axis=2).astype(np.int8)
    shares = softmax(pairs, words)
    zero = -INT8[0]
    table = np.ascontiguousarray(shares[:, zero, 0])
    differences = scores[:, np.newaxis] - scores
    for channel, each in enumerate((differences, -differences)):
        if not np.array_equal(shares[..., channel], table[np.clip(each, *INT8_BOUNDS) + zero]):
            return None
    return table


def lacking_softmax(graph: Graph, config: Config) -> Mapping[str, str]:
    """Return the nodes that a machine lacks the operations for, and why.

    A softmax over two channels that is a table needs none.
    """
    if config.has_softmax:
        return {}
    nodes = (node for node in graph.nodes if node.op == "softmax" and not _is_table(node, graph))
    return {node.name: "this configuration has no softmax" for node in nodes}


def _is_table(node: Node, graph: Graph) -> bool:
    x = graph.tensors[node.inputs[0]]
    known = x.dtype in ("int8", "uint8") and x.quantization is not None and x.quantization.sound
    return known and _is_of_two(x) and _shares_of_differences(_words(node, x)) is not None
