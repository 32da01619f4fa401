"""Softmax of integers over channels, where the bits are those of sums of integers."""

from collections.abc import Mapping

import numpy as np

from tpulite.arch.config import Config
from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import Softmax
from tpulite.quant.exactness.softmax import FIXED_POINT, fixed_point_exponentials
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.own import is_own
from tpulite.quant.tensors import UnsupportedError


def lower_softmax(node: Node, context: GraphContext) -> None:
    """Lower a softmax over channels.

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
    assert x.quantization is not None and x.shape == y.shape
    scale, beta = float(x.quantization.scale[0]), float(node.attributes.get("beta", 1.0))
    context.read(node.inputs[0])
    context.write(node.outputs[0])
    words = fixed_point_exponentials(scale, beta).astype(np.int32)
    context.emit(Softmax, node.name, (node.inputs[0],), node.outputs[0], words=words)


def lacking_softmax(graph: Graph, config: Config) -> Mapping[str, str]:
    """Return the nodes that a machine lacks the operations for, and why."""
    if config.has_softmax:
        return {}
    nodes = (node for node in graph.nodes if node.op == "softmax")
    return {node.name: "this configuration has no softmax" for node in nodes}
