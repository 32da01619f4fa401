"""Fusion of crops into the convolutions before them."""

from dataclasses import replace

from tpulite.graph.graph import Graph, Node
from tpulite.graph.passes.rewrite import count_uses, rebuild, same_meaning


def fuse_crops(graph: Graph) -> Graph:
    """Let convolutions pad less where their first or last pixels are cut off.

    That is so if nobody else reads the convolution, its windows move by one pixel and no more is
    cut off than its padding has made.
    """
    uses = count_uses(graph)
    position: dict[str, int] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        at = position.get(node.inputs[0]) if node.op == "pick" else None
        padding = None if at is None else _less(graph, nodes[at], node)
        if at is not None and padding is not None and uses[node.inputs[0]] == 1:
            attributes = {**nodes[at].attributes, "padding": padding}
            nodes[at] = replace(nodes[at], outputs=node.outputs, attributes=attributes)
            continue
        if node.op in ("conv", "depthwise") and tuple(node["stride"]) == (1, 1):
            position[node.outputs[0]] = len(nodes)
        nodes.append(node)
    return rebuild(graph, nodes)


def _less(graph: Graph, conv: Node, pick: Node) -> tuple[int, ...] | None:
    """Return the padding of a convolution that is cropped; None if it is not, or by too much."""
    x, y = graph.tensors[pick.inputs[0]], graph.tensors[pick.outputs[0]]
    indices = pick["indices"]
    consecutive = all(each == tuple(range(each[0], each[0] + len(each))) for each in indices)
    if len(indices) != 4 or not consecutive or not same_meaning(x, y):
        return None
    before = [each[0] for each in indices]
    after = [n - each[-1] - 1 for n, each in zip(x.shape, indices, strict=True)]
    if any(before[axis] or after[axis] for axis in (0, 3)):
        return None
    cut = (*before[1:3], *after[1:3])
    padding = tuple(a - b for a, b in zip(conv["padding"], cut, strict=True))
    return padding if min(padding) >= 0 else None
