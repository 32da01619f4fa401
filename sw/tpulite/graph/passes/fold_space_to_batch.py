"""Phases of an image that a file computes on as a batch, joined again: a dilated convolution."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.rewrite import rebuild, same_meaning
from tpulite.graph.verify import FUNCTIONS

_WINDOWS = ("conv", "depthwise")
_PLAIN = (*FUNCTIONS, "requantize")

Axes = Mapping[int, int]
"""How many phases each axis has; the others have one."""


def fold_space_to_batch(graph: Graph) -> Graph:
    """Let convolutions between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND work on the whole image.

    Every phase of the image is an image of the batch there, and a convolution of each of them is
    one with gaps of the whole: sums and bits are the same. Functions of one number, and changes of
    shape that add or remove an axis of one, may stand between. What else does stays as it is.
    """
    for node in graph.nodes:
        if node.op == "space_to_batch":
            graph = _folded(graph, node)
    return graph


@dataclass
class _Region:
    """What replaces the nodes from a SPACE_TO_BATCH_ND on."""

    axes: dict[str, Axes] = field(default_factory=dict)  #: Tensors of batches of phases.
    #: What takes the place of a node, by its name.
    nodes: dict[str, list[Node]] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)  #: New tensors.

    def add(self, like: Tensor, role: str, shape: tuple[int, ...]) -> str:
        """Declare a tensor that means what another does; return its name."""
        name = f"{like.name}/{role}"
        self.tensors[name] = replace(like, name=name, shape=shape)
        return name


def _folded(graph: Graph, first: Node) -> Graph:
    """Return the graph without a SPACE_TO_BATCH_ND, or as it was."""
    region = _Region()
    begun = _begin(graph, first, region)
    ended = 0
    for node in graph.nodes:
        inside = [name for name in node.inputs if name in region.axes]
        if not inside:
            continue
        if node.op == "batch_to_space":
            if not _end(graph, node, region):
                return graph
            ended += 1
        elif inside != list(node.inputs[:1]) or not _continue(graph, node, region):
            return graph
    if not begun or not ended or not region.axes.keys().isdisjoint(graph.wanted):
        return graph
    nodes = [new for node in graph.nodes for new in region.nodes.get(node.name, [node])]
    return rebuild(graph, nodes, region.tensors)


def _begin(graph: Graph, node: Node, region: _Region) -> bool:
    """Replace SPACE_TO_BATCH_ND by what it pads."""
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    block, around = _known(graph, node)
    rank = len(x.shape)
    if not block or rank not in (3, 4) or x.quantization is None or not same_meaning(x, y):
        return False
    axes = dict(enumerate(block, 1))
    whole = list(x.shape)
    for axis, (before, after) in enumerate(around, 1):
        whole[axis] += before + after
    pads = [*((0, 0) for _ in range(4 - rank)), *around, (0, 0)][:2]
    padding = tuple(pad[side] for side in (0, 1) for pad in pads)
    shape = tuple(whole)
    if min(padding) < 0 or _whole(y.shape, axes) != shape:
        return False
    region.axes[y.name] = axes
    target = region.add(y, "whole", shape)
    value = int(x.quantization.zero_point[0])
    pad = Node(node.name, "pad", (x.name,), (target,), {"padding": padding, "value": value}, "")
    region.nodes[node.name] = [replace(pad, source=node.source)]
    if rank == 3:
        row = region.add(x, f"{node.name}.row", (x.shape[0], 1, *x.shape[1:]))
        padded = region.add(y, "row", (shape[0], 1, *shape[1:]))
        region.nodes[node.name] = [
            _reshape(f"{node.name}/row", x.name, row, region),
            replace(pad, inputs=(row,), outputs=(padded,)),
            _reshape(f"{node.name}/whole", padded, target, region),
        ]
    return True


def _continue(graph: Graph, node: Node, region: _Region) -> bool:
    """Replace a node between the two; tell whether that is possible."""
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    axes = region.axes[x.name]
    attributes = dict(node.attributes)
    if node.op in _WINDOWS and len(x.shape) == 4 and tuple(node["stride"]) == (1, 1):
        steps = axes.get(1, 1), axes.get(2, 1)
        attributes["dilation"] = tuple(a * b for a, b in zip(node["dilation"], steps, strict=True))
        attributes["padding"] = tuple(
            a * b for a, b in zip(node["padding"], (*steps, *steps), strict=True)
        )
    elif node.op == "reshape" and (moved := _moved(axes, x.shape, y.shape)):
        axes = moved
        attributes["shape"] = _whole(y.shape, axes)
    elif node.op not in _PLAIN or len(node.outputs) != 1:
        return False
    region.axes[y.name] = axes
    target = region.add(y, "whole", _whole(y.shape, axes))
    inputs = f"{x.name}/whole", *node.inputs[1:]
    new = replace(node, inputs=inputs, outputs=(target,), attributes=attributes)
    region.nodes[node.name] = [new]
    return True


def _end(graph: Graph, node: Node, region: _Region) -> bool:
    """Replace BATCH_TO_SPACE_ND by what is left of the image; tell whether that is possible."""
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    block, crops = _known(graph, node)
    axes = {axis: n for axis, n in enumerate(block, 1) if n > 1}
    if not block or axes != {a: n for a, n in region.axes[x.name].items() if n > 1}:
        return False
    if not same_meaning(x, y) or len(x.shape) not in (3, 4):
        return False
    source, whole = f"{x.name}/whole", _whole(x.shape, region.axes[x.name])
    indices = [range(extent) for extent in whole]
    for axis, (before, after) in enumerate(crops, 1):
        indices[axis] = range(before, whole[axis] - after)
    picked = tuple(tuple(each) for each in indices)
    if tuple(map(len, picked)) != y.shape or min(min(crop) for crop in crops) < 0:
        return False
    if len(whole) == 4:
        pick = Node(node.name, "pick", (source,), (y.name,), {"indices": picked}, node.source)
        region.nodes[node.name] = [pick]
        return True
    row = region.add(x, f"{node.name}.row", (whole[0], 1, *whole[1:]))
    rest = region.add(y, "rest", (y.shape[0], 1, *y.shape[1:]))
    indices = (picked[0], (0,), *picked[1:])
    region.nodes[node.name] = [
        _reshape(f"{node.name}/row", source, row, region),
        Node(node.name, "pick", (row,), (rest,), {"indices": indices}, node.source),
        Node(f"{node.name}/crop", "reshape", (rest,), (y.name,), {"shape": y.shape}, ""),
    ]
    return True


def _reshape(name: str, source: str, target: str, region: _Region) -> Node:
    shape = region.tensors[target].shape
    return Node(name, "reshape", (source,), (target,), {"shape": shape}, "")


def _known(graph: Graph, node: Node) -> tuple[list[int], list[list[int]]]:
    """Return the block and the amounts of its axes; nothing if they are not known or strange."""
    values = [graph.tensors[name].data for name in node.inputs[1:3] if name]
    if len(values) != 2 or any(value is None for value in values):
        return [], []
    block, amounts = (value.tolist() for value in values if value is not None)
    rank = len(graph.tensors[node.inputs[0]].shape)
    fits = isinstance(block, list) and 0 < len(block) < rank - 1 and min(block) > 0
    if not fits or values[1] is None or values[1].shape != (len(block), 2):
        return [], []
    return block, amounts


def _whole(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """Return the shape of the images of which a batch has the phases."""
    batch = shape[0] // math.prod(axes.values())
    return batch, *(n * axes.get(axis, 1) for axis, n in enumerate(shape[1:], 1))


def _moved(axes: Axes, before: tuple[int, ...], after: tuple[int, ...]) -> dict[int, int] | None:
    """Return the phases after a change of shape; None unless an axis of one comes or goes."""
    longer, shorter = sorted((before, after), key=len, reverse=True)
    if len(longer) != len(shorter) + 1:
        return dict(axes) if before == after else None
    split = {a for a, n in axes.items() if n > 1}
    for place in range(len(longer) - 1, 0, -1):
        if longer[:place] + longer[place + 1 :] != shorter or longer[place] != 1:
            continue
        step = len(after) - len(before)
        if step < 0 and place in split:
            continue
        return {a + step * (a >= place): n for a, n in axes.items() if a in split}
    return None
