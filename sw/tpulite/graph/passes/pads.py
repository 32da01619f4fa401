"""Pads: spread over nodes that machines have, and fused into windows, as crops are."""

from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.rewrite import (
    count_uses,
    rebuild,
    remove_dead_nodes,
    same_meaning,
    unique_name,
)


def spread_pads(graph: Graph) -> Graph:
    """Replace each ``pad_axes`` of integers by nodes that machines have.

    Rows and columns of four axes, and the steps of a sequence of three, are padded; a convolution
    behind them takes such a pad along (:func:`fuse_pads`). Other axes are concatenated with
    constants.
    """
    tensors = dict(graph.tensors)
    replaced = {
        node.name: _Spread(node, tensors).nodes
        for node in graph.nodes
        if node.op == "pad_axes" and _known(node, tensors)
    }
    nodes = (new for node in graph.nodes for new in replaced.get(node.name, [node]))
    return rebuild(graph, nodes, tensors)


def _known(node: Node, tensors: dict[str, Tensor]) -> bool:
    x, y = tensors[node.inputs[0]], tensors[node.outputs[0]]
    return same_meaning(x, y) and x.quantization is not None


_PIXELS = {4: (1, 2), 3: (1,)}
"""Axes that are rows and columns, by the number of axes."""


class _Spread:
    """Nodes that pad one axis after the other; tensors are added to those of the graph."""

    def __init__(self, node: Node, tensors: dict[str, Tensor]) -> None:
        self.node, self.tensors = node, tensors
        self.nodes: list[Node] = []
        around = node["around"]
        pixels = _PIXELS.get(len(around), ())
        x = self.tensors[node.inputs[0]]
        for axis, pair in enumerate(around):
            if axis not in pixels and any(pair):
                x = self._beside(x, axis, pair)
        if any(any(around[axis]) for axis in pixels):
            x = self._padded(x, [(0, 0)] * (2 - len(pixels)) + [around[axis] for axis in pixels])
        self._emit("reshape", (x.name,), tensors[node.outputs[0]], shape=x.shape)

    def _beside(self, x: Tensor, axis: int, pair: tuple[int, int]) -> Tensor:
        """Concatenate a tensor with constants before and behind it."""
        parts = [x.name]
        for place, count in zip((0, 2), pair, strict=True):
            if count:
                shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
                part = self._add(f"{axis}/{place}", shape)
                data = np.full(shape, self.node["value"], part.dtype)
                self.tensors[part.name] = replace(part, data=data)
                parts.insert(place, part.name)
        y = self._add(f"{axis}", (*x.shape[:axis], x.shape[axis] + sum(pair), *x.shape[axis + 1 :]))
        return self._emit("concat", tuple(parts), y, axis=axis, activation="none")

    def _padded(self, x: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
        """Pad rows and columns; a sequence is one row."""
        (top, bottom), (left, right) = pairs
        shape = (x.shape[0], *(() if len(x.shape) == 4 else (1,)), *x.shape[1:])
        image = self._emit("reshape", (x.name,), self._add("image", shape), shape=shape)
        whole = (shape[0], shape[1] + top + bottom, shape[2] + left + right, shape[3])
        fields = {"padding": (top, left, bottom, right), "value": self.node["value"]}
        image = self._emit("pad", (image.name,), self._add("padded", whole), **fields)
        back = self.tensors[self.node.outputs[0]].shape
        return self._emit("reshape", (image.name,), self._add("back", back), shape=back)

    def _add(self, role: str, shape: tuple[int, ...]) -> Tensor:
        """Declare a tensor that means what the result does."""
        name = unique_name(f"{self.node.outputs[0]}/{role}", self.tensors)
        like = self.tensors[self.node.outputs[0]]
        self.tensors[name] = replace(like, name=name, shape=shape)
        return self.tensors[name]

    def _emit(self, op: str, inputs: tuple[str, ...], y: Tensor, **attributes: object) -> Tensor:
        name = f"{self.node.name}/{len(self.nodes)}"
        source = "" if op == "reshape" else self.node.source
        self.nodes.append(Node(name, op, inputs, (y.name,), attributes, source))
        return y


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
