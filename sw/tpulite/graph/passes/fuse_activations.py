"""Fusion of activations into the nodes before them."""

import math
from dataclasses import replace

from tpulite.graph.graph import Graph, Node
from tpulite.graph.passes.rewrite import count_uses, rebuild, same_meaning

_ACTIVATIONS = ("relu", "relu6", "relu_n1_1")
_CLIPS = {(0.0, math.inf): "relu", (0.0, 6.0): "relu6", (-1.0, 1.0): "relu_n1_1"}
_HOSTS = ("conv", "depthwise", "dense", "add", "sub", "mul", "max_pool", "average_pool")


def fuse_activations(graph: Graph) -> Graph:
    """Let a node clamp its own result, where a relu, relu6 or relu_n1_1 comes next.

    Bits stay the same, so it happens only if input and output of the activation are quantized
    alike, and if nobody else uses its input. Clips to the same bounds count as activations.
    """
    uses = count_uses(graph)
    position: dict[str, int] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        activation = _activation(node)
        at = position.get(node.inputs[0]) if activation else None
        if at is not None and uses[node.inputs[0]] == 1 and _alike(graph, node):
            host = nodes[at]
            attributes = {**host.attributes, "activation": activation}
            nodes[at] = replace(host, outputs=node.outputs, attributes=attributes)
            continue
        raw = node.attributes.get("raw", False)  # int32 sums, which nothing clamps
        if node.op in _HOSTS and node["activation"] == "none" and not raw:
            position[node.outputs[0]] = len(nodes)
        nodes.append(node)
    return rebuild(graph, nodes)


def _activation(node: Node) -> str | None:
    if node.op == "clip":
        return _CLIPS.get((float(node["low"]), float(node["high"])))
    return node.op if node.op in _ACTIVATIONS else None


def _alike(graph: Graph, node: Node) -> bool:
    return same_meaning(graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]])
