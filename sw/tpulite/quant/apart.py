"""Operators of LiteRT that keep the scale of what they read: a QUANTIZE of its own changes it."""

from collections.abc import Iterator
from dataclasses import replace

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.rewrite import same_meaning

_BYTES = ("int8", "uint8")


def requantize_apart(graph: Graph) -> Graph:
    """Return a network in which average pools and concatenations change no scale.

    A pool's result is requantized, and what a concatenation reads, as TFLite's converter does it.
    """
    tensors = dict(graph.tensors)
    nodes = tuple(each for node in graph.nodes for each in _apart(node, tensors))
    return replace(graph, nodes=nodes, tensors=tensors)


def _apart(node: Node, tensors: dict[str, Tensor]) -> Iterator[Node]:
    """Yield a node with those that requantize before and behind it; add their tensors."""
    if node.op not in ("average_pool", "concat"):
        yield node
        return
    y, read = tensors[node.outputs[0]], [tensors[name] for name in node.inputs]
    if not all(x.dtype == y.dtype and x.data is None for x in read) or y.dtype not in _BYTES:
        yield node
        return
    if any(x.quantization is None for x in (*read, y)):
        yield node
        return
    if node.op == "concat":
        inputs = []
        for index, x in enumerate(read):
            name = x.name
            if not same_meaning(x, y):
                name = f"{node.name}/{index}"
                tensors[name] = replace(x, name=name, quantization=y.quantization)
                yield Node(f"{name}/requantize", "requantize", (x.name,), (name,), {}, node.source)
            inputs.append(name)
        yield replace(node, inputs=tuple(inputs))
        return
    if same_meaning(read[0], y):
        yield node
        return
    name = f"{node.name}/mean"
    tensors[name] = replace(y, name=name, quantization=read[0].quantization)
    yield replace(node, outputs=(name,))
    yield Node(f"{name}/requantize", "requantize", (name,), node.outputs, {}, node.source)
