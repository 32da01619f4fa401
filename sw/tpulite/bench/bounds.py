"""The fewest cycles that a network can take, from its operators alone.

Nothing here asks how the compiler does it: the bound is the largest of what the multipliers, the
vector path and each direction of DRAM have to do for the whole network, if all the others are free.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.graph.graph import Graph, Node
from tpulite.graph.macs import macs_of

START = 150
"""Cycles of a program that does nothing: the first commands come, the last result is written."""


@dataclass(frozen=True)
class Bound:
    """Cycles that parts of a machine are busy at least."""

    #: Products, N² in each cycle; of a depthwise convolution up to N for each of N channels.
    multipliers: int
    vectors: int  #: N elements of operands in each cycle, for what the multipliers cannot do.
    dram: int  #: Bytes read, or written if these are more; operands and results once each.

    @property
    def cycles(self) -> int:
        """The largest of them, and :data:`START`."""
        return START + max(self.multipliers, self.vectors, self.dram)


def bound_of(graph: Graph, config: Config) -> Bound:
    """Return the bound of a network of TFLite's operators.

    Elements that no result needs are left out: of a slice, the rest of what it is taken from.
    """
    needed = _needed(graph)
    parts = [_parts(node, graph, needed, config) for node in graph.nodes]
    read = sum(needed.get(name, 0.0) * _elements(graph, name) for name in graph.inputs)
    read = read / BEAT_BYTES + sum(weights for *_, weights in parts)
    written = sum(_elements(graph, name) for name in graph.outputs) / BEAT_BYTES
    return Bound(
        math.floor(sum(products for products, *_ in parts)),
        math.floor(sum(vectors for _, vectors, _ in parts)),
        math.floor(max(read, written)),
    )


def sum_of_layer_bounds(graph: Graph, config: Config) -> int:
    """Return cycles of a network whose layers run one after the other, each at its bound.

    The bound of a layer is the largest of its multipliers, its vector path and its weights;
    activations stay on chip. Layers that overlap can take less.
    """
    needed = _needed(graph)
    return START + math.floor(sum(max(_parts(node, graph, needed, config)) for node in graph.nodes))


def _parts(
    node: Node, graph: Graph, needed: Mapping[str, float], config: Config
) -> tuple[float, float, float]:
    """Return cycles of the multipliers, of the vector path, and to read the weights."""
    share, n = needed.get(node.outputs[0], 0.0), config.array_size
    weights = (name for name in node.inputs if name and name not in needed)
    read = sum(_bytes(graph, name) for name in weights) if node.op in _WEIGHTED else 0
    return (
        share * _products(node, graph, n) / n**2,
        share * _VECTORS.get(node.op, _no_vectors)(node, graph) / n,
        read / BEAT_BYTES,
    )


_WEIGHTED = ("conv", "depthwise", "dense", "transposed_conv")
"""Operators whose constants are read."""

_DROPPING = (
    *("slice", "strided_slice", "split", "split_v", "unpack", "gather"),
    *("resize_nearest", "resize_bilinear"),
)
"""Operators that leave elements out; a resize to fewer pixels reads one for each at least."""


def _needed(graph: Graph) -> Mapping[str, float]:
    """Return which part of each activation results need, by its name."""
    needed = dict.fromkeys(graph.outputs, 1.0)
    for node in reversed(graph.nodes):
        taken = sum(needed.get(name, 0.0) * _elements(graph, name) for name in node.outputs)
        if not taken:
            continue
        for name in node.inputs:
            if not name or graph.tensors[name].data is not None:
                continue
            share = 1.0
            if node.op in _DROPPING:
                share = min(1.0, needed.get(name, 0.0) + taken / _elements(graph, name))
            elif _elements(graph, name) == _elements(graph, node.outputs[0]) and node.op != "conv":
                share = min(1.0, taken / _elements(graph, name))
            elif node.op == "conv":
                share = math.prod(
                    min(1.0, k / s)
                    for k, s in zip(_kernel(node, graph), node["stride"], strict=True)
                )
                if _kernel(node, graph) == (1, 1):
                    share *= _pixels(node.outputs[0], graph, needed)
            needed[name] = max(needed.get(name, 0.0), share)
    return needed


def _pixels(name: str, graph: Graph, needed: Mapping[str, float]) -> float:
    """Return which part of the pixels of an activation results need, all of its channels each."""
    readers = [node for node in graph.nodes if name in node.inputs]
    channels = {graph.tensors[y].shape[-1] for node in readers for y in node.outputs}
    dropped = all(node.op in _DROPPING for node in readers) and name not in graph.outputs
    return needed[name] if dropped and channels == {graph.tensors[name].shape[-1]} else 1.0


def _products(node: Node, graph: Graph, n: int) -> float:
    """Return multiplications; padding along the height and width of a kernel is left out."""
    if node.op == "depthwise":
        taps = math.prod(max(_taps(node, graph, axis)) for axis in (0, 1))
        return _elements(graph, node.outputs[0]) * n * -(-taps // n)
    if node.op == "average_pool":
        channels = graph.tensors[node.inputs[0]].shape[3]
        return channels * sum(_taps(node, graph, 0)) * sum(_taps(node, graph, 1))
    share = 1.0
    if node.op == "conv":
        for axis, k in enumerate(_kernel(node, graph)):
            inside = _taps(node, graph, axis)
            share *= sum(inside) / (k * len(inside))
    return share * macs_of(node, graph)


def _taps(node: Node, graph: Graph, axis: int) -> list[int]:
    """Return how many taps of each output along an axis are inside the input."""
    extent = graph.tensors[node.inputs[0]].shape[1 + axis]
    kernel, before = _kernel(node, graph)[axis], node["padding"][axis]
    stride, dilation = node["stride"][axis], node.attributes.get("dilation", (1, 1))[axis]
    return [
        sum(0 <= o * stride - before + t * dilation < extent for t in range(kernel))
        for o in range(graph.tensors[node.outputs[0]].shape[1 + axis])
    ]


def _kernel(node: Node, graph: Graph) -> tuple[int, ...]:
    if "window" in node.attributes:
        return node["window"]
    shape = graph.tensors[node.inputs[1]].shape
    return shape[:2] if node.op == "depthwise" else shape[1:3]


def _elements(graph: Graph, name: str) -> int:
    return math.prod(graph.tensors[name].shape)


def _bytes(graph: Graph, name: str) -> int:
    tensor = graph.tensors[name]
    width = 4 if tensor.dtype == "int32" else 1
    return _elements(graph, name) * width


def _no_vectors(node: Node, graph: Graph) -> int:
    return 0


def _of_output(node: Node, graph: Graph) -> int:
    return _elements(graph, node.outputs[0])


def _of_input(node: Node, graph: Graph) -> int:
    return _elements(graph, node.inputs[0])


def _of_operands(node: Node, graph: Graph) -> int:
    """Count results; a sum with a constant is part of a neighbor."""
    constant = any(graph.tensors[name].data is not None for name in node.inputs)
    return 0 if constant else _elements(graph, node.outputs[0])


def _of_softmax(node: Node, graph: Graph) -> int:
    """Count rows for the maximum, the sum and the quotients."""
    return 3 * _elements(graph, node.inputs[0])


def _of_windows(node: Node, graph: Graph) -> int:
    """Count rows, then columns, each by windows of half the size where there is no stride."""
    _, height, width, channels = graph.tensors[node.inputs[0]].shape
    _, rows, columns, _ = graph.tensors[node.outputs[0]].shape
    along_y, along_x = (_reads(node, graph, axis) for axis in (0, 1))
    one = sum(_taps(node, graph, 0)) * sum(_taps(node, graph, 1))
    return channels * min(
        one, height * along_x + columns * along_y, width * along_y + rows * along_x
    )


def _reads(node: Node, graph: Graph, axis: int) -> int:
    """Return elements that all outputs along an axis read, if windows of half the size may help."""
    halves = 2 * (node["window"][axis] - 1).bit_length()
    taps = _taps(node, graph, axis)
    return sum(min(n, halves) if node["stride"][axis] == 1 else n for n in taps)


_VECTORS: Mapping[str, Callable[[Node, Graph], int]] = {
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum"), _of_operands),
    **dict.fromkeys(("mean", "sum", "reduce_max", "reduce_min", "average_pool"), _of_input),
    **dict.fromkeys(("resize_bilinear", "prelu"), _of_output),
    "max_pool": _of_windows,
    "softmax": _of_softmax,
}
"""Elements that the vector path reads at least, by operator."""
