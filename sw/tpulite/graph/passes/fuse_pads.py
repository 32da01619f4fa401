"""Fusion of pads into the windows that read them."""

from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.remove_dead_nodes import remove_dead_nodes
from tpulite.graph.passes.rewrite import rebuild, same_meaning


def fuse_pads(graph: Graph) -> Graph:
    """Let convolutions and maxima pad for themselves, where a pad comes before them.

    Padding of a convolution adds nothing to its sums, so the pad must add zeros: its value is the
    zero point. Padding of a maximum does not count, so the pad must add the least value of the
    type, and every window must still see an element. Averages count what a pad adds, but not their
    own padding, so pads before them stay.
    """
    pads: dict[str, Node] = {}
    nodes = []
    for node in graph.nodes:
        pad = pads.get(node.inputs[0]) if node.inputs else None
        if pad is not None and _fits(graph, pad, node):
            pairs = zip(pad["padding"], node["padding"], strict=True)
            attributes = {**node.attributes, "padding": tuple(a + b for a, b in pairs)}
            node = replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)
        if node.op == "pad":
            pads[node.outputs[0]] = node
        nodes.append(node)
    return remove_dead_nodes(rebuild(graph, nodes))


def _fits(graph: Graph, pad: Node, node: Node) -> bool:
    x, padded = graph.tensors[pad.inputs[0]], graph.tensors[pad.outputs[0]]
    if not same_meaning(x, padded):
        return False
    if node.op in ("conv", "depthwise"):
        return pad["value"] == _zero(x)
    if node.op == "max_pool":
        total = [a + b for a, b in zip(pad["padding"], node["padding"], strict=True)]
        sees = all(n < k for n, k in zip(total, (*node["window"], *node["window"]), strict=True))
        return sees and pad["value"] == _least(x)
    return False


def _zero(x: Tensor) -> int:
    if x.quantization is None:
        return 0
    return int(x.quantization.zero_point[0])


def _least(x: Tensor) -> float:
    dtype = np.dtype(x.dtype)
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -np.inf
