"""Pads of any axes, as pads of rows and columns and concatenations with constants."""

from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.rewrite import rebuild, same_meaning, unique_name


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
