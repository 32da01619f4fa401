"""Tensors in several orders of their axes, each made when somebody asks for it."""

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from tpulite.frontend.onnx.translate.elementwise import BINARY, UNARY
from tpulite.frontend.onnx.translate.shapes import REDUCTIONS
from tpulite.graph.graph import Graph, Node, Origin, Tensor
from tpulite.graph.passes.rewrite import same_meaning

Perm = tuple[int, ...]
"""Axis i of the reordered tensor is axis ``perm[i]`` of the file's."""


def identity(rank: int) -> Perm:
    """Return the file's own order."""
    return tuple(range(rank))


def nhwc(rank: int) -> Perm:
    """Return the order with channels last."""
    return (0, *range(2, rank), 1)


def compose(first: Perm, second: Perm) -> Perm:
    """Return the order that ``second`` makes of a tensor in order ``first``."""
    return tuple(first[axis] for axis in second)


def invert(perm: Perm) -> Perm:
    """Return the order that undoes another."""
    return tuple(int(axis) for axis in np.argsort(perm))


@dataclass
class Orders:
    """The new graph while it grows: nodes, tensors, and what exists in which order.

    A tensor in another order than the file's is named after it with a suffix: ``.nhwc``, ``.nwc``
    or the axes. A tensor with the file's name has the file's order.

    Attributes
    ----------
    flat : dict of str to (int, int, int)
        Tensors [batch, H * W * C] that are [batch, C * H * W] in the file, with C, H and W.
    origins : dict of str to Origin
        Which tensor of the file each tensor of the new graph is, and in which order.
    """

    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    flat: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    _made: dict[str, dict[Perm, str]] = field(default_factory=lambda: defaultdict(dict))

    def existing(self, name: str) -> dict[Perm, str]:
        """Return the orders in which a tensor exists, and its names in them."""
        return self._made[name]

    def is_constant(self, name: str) -> bool:
        """Tell whether a tensor of the file is known."""
        return self.graph.tensors[name].data is not None

    def rank(self, name: str) -> int:
        """Return the number of axes of a tensor."""
        return len(self.graph.tensors[name].shape)

    def define(self, name: str, perm: Perm) -> str:
        """Declare a tensor of the file in an order, to be computed by the next node."""
        tensor = self.graph.tensors[name]
        suffix = ".nhwc" if name in self.flat else _suffix(perm)
        new = name + suffix
        self.tensors[new] = reordered(tensor, perm, new)
        image = self.flat.get(name)
        move = (tensor.shape, perm) if image is None else ((tensor.shape[0], *image), nhwc(4))
        moves = () if move[1] == identity(len(move[1])) else (move,)
        self.origins[new] = Origin(name, tensor.shape, moves)
        self._made[name][perm] = new
        return new

    def share(self, name: str, perm: Perm, existing: str) -> None:
        """Say that a tensor in an order is one that exists already."""
        self._made[name].setdefault(perm, existing)

    def get(self, name: str, perm: Perm | None = None) -> str:
        """Return the name of a tensor in an order, the file's by default; make it if need be."""
        if not name:
            return name
        perm = identity(self.rank(name)) if perm is None else perm
        made = self._made[name]
        if perm in made:
            return made[perm]
        if self.is_constant(name):
            return self.define(name, perm)
        source_perm, source = next(iter(made.items()))
        result = self.define(name, perm)
        step = compose(invert(source_perm), perm)
        # At the ends a change of order is the host's, and is called what it is.
        inside = name not in (*self.graph.inputs, *self.graph.outputs)
        if inside and keeps_elements(self.tensors[source].shape, step):
            self.add("reshape", (source,), result, shape=self.tensors[result].shape)
        else:
            self.add("transpose", (source,), result, perm=step)
        return result

    def add(self, op: str, inputs: tuple[str, ...], output: str, **attributes) -> None:
        """Add a node of our own, named after what it computes."""
        self.nodes.append(Node(f"{output}/{op}", op, inputs, (output,), attributes, ""))

    def add_tensor(self, tensor: Tensor) -> str:
        """Declare a tensor that is none of the file's."""
        self.tensors[tensor.name] = tensor
        return tensor.name

    def add_constant(self, tensor: Tensor) -> str:
        """Declare a constant made of one of the file's; return its name, another if that is taken.

        Operators may read one constant in several orders, such as tied weights.
        """
        number, name = 0, tensor.name
        while (other := self.tensors.get(name)) and not _same_constant(other, tensor):
            number += 1
            name = f"{tensor.name}.{number}"
        return self.add_tensor(replace(tensor, name=name))


def _same_constant(a: Tensor, b: Tensor) -> bool:
    if a.data is None or b.data is None or not same_meaning(a, b):
        return False
    return np.array_equal(a.data, b.data)


def reordered(tensor: Tensor, perm: Perm, name: str) -> Tensor:
    """Return a tensor with its axes in another order."""
    quantization = tensor.quantization
    if quantization is not None and quantization.axis is not None:
        quantization = replace(quantization, axis=perm.index(quantization.axis))
    data = None if tensor.data is None else np.ascontiguousarray(tensor.data.transpose(perm))
    shape = tuple(tensor.shape[axis] for axis in perm)
    return Tensor(name, shape, tensor.dtype, quantization, data)


def keeps_elements(shape: tuple[int, ...], perm: Perm) -> bool:
    """Tell whether a tensor keeps its elements in row-major order if its axes are permuted."""
    moved = [axis for axis in perm if shape[axis] != 1]
    return moved == sorted(moved)


def _suffix(perm: Perm) -> str:
    if perm == identity(len(perm)):
        return ""
    if perm == nhwc(4):
        return ".nhwc"
    if perm == nhwc(3):
        return ".nwc"
    return "." + "".join(str(axis) for axis in perm)


_IMAGE = (
    "conv",
    "transposed_conv",
    "max_pool",
    "average_pool",
    "batch_norm",
    "depth_to_space",
    "space_to_depth",
)
_REDUCTIONS = tuple(REDUCTIONS.values())
_AGNOSTIC = ("concat", "pad", "pick", "softmax", "log_softmax", *BINARY, *UNARY)


@dataclass(frozen=True)
class LayoutPreferences:
    """What is wanted of tensors."""

    orders: dict[str, Perm]  #: Order of the axes, where it is not the file's.
    #: Flattened images that only dense layers read, so that their elements may be in any order; C,
    #: H and W of the images.
    flat: dict[str, tuple[int, int, int]]


def layout_preferences(graph: Graph) -> LayoutPreferences:
    """Ask all operators, from the last to the first; of two the earlier operator's holds."""
    orders: dict[str, Perm] = {}
    for node in reversed(graph.nodes):
        x, y = node.inputs[0] if node.inputs else "", node.outputs[0]
        preference = orders.get(y)
        if node.op in _IMAGE or (node.op in _REDUCTIONS and _over_pixels(graph, node)):
            orders[x] = nhwc(len(graph.tensors[x].shape))
        elif preference is None:
            continue
        elif node.op in _AGNOSTIC or (node.op in _REDUCTIONS and node["keep_dims"]):
            for name in node.inputs:
                if len(graph.tensors[name].shape) == len(preference):
                    orders[name] = preference
        elif node.op == "transpose":
            orders[x] = compose(node["perm"], preference)
    orders = {name: perm for name, perm in orders.items() if perm != identity(len(perm))}
    return LayoutPreferences(orders, _flat_images(graph))


def _over_pixels(graph: Graph, node: Node) -> bool:
    """Tell whether a reduction is that of each channel of an image."""
    axes = range(2, len(graph.tensors[node.inputs[0]].shape))
    return len(axes) > 0 and node["axes"] == tuple(axes)


def _flat_images(graph: Graph) -> dict[str, tuple[int, int, int]]:
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)

    def only_dense(name: str) -> bool:
        users = readers.get(name, [])
        if not users or name in graph.outputs:
            return False
        return all(
            (user.op == "dense" and user.inputs[0] == name)
            or (user.op in UNARY and only_dense(user.outputs[0]))
            for user in users
        )

    flat = {}
    for node in graph.nodes:
        if node.op != "reshape":
            continue
        source = graph.tensors[node.inputs[0]].shape
        shape = graph.tensors[node.outputs[0]].shape
        flattens = len(source) == 4 and shape == (source[0], math.prod(source[1:]))
        if flattens and only_dense(node.outputs[0]):
            flat[node.outputs[0]] = (source[1], source[2], source[3])
    return flat
