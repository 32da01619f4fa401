"""Operators of ONNX that LiteRT has only between tensors of one scale: a QUANTIZE changes it."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.graph.passes.rewrite import same_meaning, unique_name

_BYTES = ("int8", "uint8")

_RESULTS = {"sigmoid": (1 / 256, 0), "tanh": (1 / 128, 128)}
"""Scale of the only results that LiteRT's kernels have, and zero point above the least integer."""


def requantize_apart(graph: Graph) -> Graph:
    """Return a network in which operators whose kernels ignore or refuse scales change none.

    Results of pools, maxima and minima over axes are requantized, and what concatenations, maxima
    and minima read, as TFLite's converter does it; so are results of sigmoid and tanh, which have
    one scale. The activation of a concatenation stands behind it. LiteRT's NEG negates integers,
    whatever they mean: negations are products with -1.
    """
    tensors = dict(graph.tensors)
    nodes = tuple(each for node in graph.nodes for each in _apart(node, tensors))
    return replace(graph, nodes=nodes, tensors=tensors)


def _apart(node: Node, tensors: dict[str, Tensor]) -> Iterator[Node]:
    """Yield a node with those that requantize before and behind it; add their tensors."""
    rule = _RULES.get(node.op)
    ends = [tensors[name] for name in (*node.inputs, *node.outputs) if name]
    known = all(x.quantization is not None and x.dtype in _BYTES for x in ends)
    if rule is None or not known or len({x.dtype for x in ends}) > 1:
        yield node
    else:
        yield from rule(node, tensors)


def _pool(node: Node, tensors: dict[str, Tensor]) -> Iterator[Node]:
    x, y = tensors[node.inputs[0]], tensors[node.outputs[0]]
    role = "mean" if node.op == "average_pool" else "extreme"
    yield from _requantized(node, replace(y, quantization=x.quantization), role, tensors)


def _of_one_scale(node: Node, tensors: dict[str, Tensor]) -> Iterator[Node]:
    y = tensors[node.outputs[0]]
    scale, above = _RESULTS[node.op]
    zero = np.array([int(np.iinfo(y.dtype).min) + above])
    made = replace(y, quantization=Quantization(np.array([scale], np.float32), zero))
    yield from _requantized(node, made, "result", tensors)


def _requantized(node: Node, made: Tensor, role: str, tensors: dict[str, Tensor]) -> Iterator[Node]:
    """Yield a node that makes a tensor, and what requantizes it if the file wants another one."""
    if same_meaning(made, tensors[node.outputs[0]]):
        yield node
        return
    name = unique_name(f"{node.name}/{role}", tensors)
    tensors[name] = replace(made, name=name)
    yield replace(node, outputs=(name,))
    yield Node(f"{name}/requantize", "requantize", (name,), node.outputs, {}, node.source)


def _operands(node: Node, tensors: dict[str, Tensor]) -> Iterator[Node]:
    """Yield what gives the operands of a node the scale of its result, and the node."""
    y, inputs = tensors[node.outputs[0]], []
    for index, x in enumerate(tensors[name] for name in node.inputs):
        name = x.name
        if not same_meaning(x, y):
            name = unique_name(f"{node.name}/{index}", tensors)
            tensors[name] = replace(x, name=name, quantization=y.quantization, data=None)
            yield Node(f"{name}/requantize", "requantize", (x.name,), (name,), {}, node.source)
        inputs.append(name)
    yield replace(node, inputs=tuple(inputs))


def _concat(node: Node, tensors: dict[str, Tensor]) -> Iterator[Node]:
    *before, joined = _operands(node, tensors)
    yield from before
    activation = node.attributes.get("activation", "none")
    if activation == "none":
        yield joined
        return
    name = unique_name(f"{node.name}/joined", tensors)
    tensors[name] = replace(tensors[node.outputs[0]], name=name)
    attributes = {**node.attributes, "activation": "none"}
    yield replace(joined, outputs=(name,), attributes=attributes)
    yield Node(f"{name}/{activation}", activation, (name,), node.outputs, {}, node.source)


def _negation(node: Node, tensors: dict[str, Tensor]) -> Iterator[Node]:
    dtype, name = tensors[node.inputs[0]].dtype, unique_name(f"{node.name}/minus_one", tensors)
    zero = 1 if dtype == "uint8" else 0
    meaning = Quantization(np.ones(1, np.float32), np.array([zero]))
    tensors[name] = Tensor(name, (1,), dtype, meaning, np.array([zero - 1], dtype))
    yield replace(node, op="mul", inputs=(*node.inputs, name), attributes={"activation": "none"})


_RULES = {
    **dict.fromkeys(("average_pool", "max_pool", "reduce_max", "reduce_min"), _pool),
    **dict.fromkeys(_RESULTS, _of_one_scale),
    **dict.fromkeys(("maximum", "minimum"), _operands),
    "concat": _concat,
    "neg": _negation,
}
