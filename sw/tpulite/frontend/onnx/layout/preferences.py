"""Which order of axes the operators behind a tensor want."""

import math
from dataclasses import dataclass

from tpulite.frontend.onnx.layout.orders import Perm, compose, identity, nhwc
from tpulite.frontend.onnx.translate.elementwise import BINARY, UNARY
from tpulite.frontend.onnx.translate.shapes import REDUCTIONS
from tpulite.graph.graph import Graph, Node

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
