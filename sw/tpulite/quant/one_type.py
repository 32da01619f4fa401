"""LiteRT's operators have one type of 8 bits: what an ONNX file mixes becomes int8."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from tpulite.frontend.onnx.weights import without_zero_points
from tpulite.graph.graph import Graph, Node, Source, Tensor
from tpulite.graph.passes.rewrite import unique_name

PRODUCTS = ("conv", "depthwise", "dense", "transposed_conv")

_BYTES = ("int8", "uint8")
_CHANGES = ("quantize", "dequantize", "requantize")
"""Operators that change types."""
_HALF = 128


def with_one_type(graph: Graph) -> Graph:
    """Return a network whose quantized operators read and write one type.

    If one of them mixes types, has uint8 weights with scales of channels, or multiplies uint8
    activations, all uint8 tensors become int8: integers and zero points less 128, which mean the
    same. Inputs, outputs and states keep their type. Weights lose zero points that LiteRT's kernels
    do not have, where int8 holds the difference.
    """
    if any(_mixes(node, graph) for node in graph.nodes):
        graph = _signed_graph(graph)
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        weight = tensors[node.inputs[1]] if node.op in PRODUCTS else None
        if weight is not None and weight.data is not None and has_strange_zero_point(node, weight):
            tensors[weight.name] = without_zero_points(weight)
    return replace(graph, tensors=tensors)


def has_strange_zero_point(node: Node, weight: Tensor) -> bool:
    """Tell whether weights of int8 have a zero point that LiteRT's kernels ignore or reject."""
    found = weight.quantization
    if weight.dtype != "int8" or found is None or not found.zero_point.any():
        return False
    return node.op != "dense" or found.scale.size > 1


def _mixes(node: Node, graph: Graph) -> bool:
    if node.op in _CHANGES:
        return False
    if node.op == "matmul" and graph.tensors[node.inputs[0]].dtype == "uint8":
        return True
    ends = [graph.tensors[name] for name in (*node.inputs, *node.outputs) if name]
    several = any(
        _is_unsigned(x) and x.quantization and len(x.quantization.scale) > 1 for x in ends
    )
    types = {x.dtype for x in ends if x.dtype in _BYTES and x.quantization is not None}
    return several or len(types) > 1


def _signed_graph(graph: Graph) -> Graph:
    """Return a network without uint8 tensors that mean numbers, but for its ends."""
    unsigned = {x.name: x for x in graph.tensors.values() if _is_unsigned(x)}
    ends = {*graph.given, *graph.wanted} & unsigned.keys()
    names = {x: unique_name(f"{x}/int8", graph.tensors) if x in ends else x for x in unsigned}
    tensors = {
        x.name: x for x in graph.tensors.values() if x.name not in unsigned or x.name in ends
    }
    tensors |= {names[x.name]: _signed(x, names[x.name]) for x in unsigned.values()}

    def renamed(each: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(x, x) for x in each)

    def border(x: str, y: str) -> Node:
        return Node(unique_name(f"{x}/requantize", taken), "requantize", (x,), (y,), {}, "")

    taken = {node.name for node in graph.nodes}
    nodes = [border(x, names[x]) for x in graph.given if x in ends]
    for node in graph.nodes:
        attributes = dict(node.attributes)
        if node.op == "pad" and node.inputs[0] in unsigned:
            attributes["value"] = node["value"] - _HALF
        ends_of = {"inputs": renamed(node.inputs), "outputs": renamed(node.outputs)}
        nodes.append(replace(node, **ends_of, attributes=attributes))
        nodes += [border(names[x], x) for x in node.outputs if x in ends]
    return replace(graph, nodes=tuple(nodes), tensors=tensors, source=_renamed(graph, names))


def _renamed(graph: Graph, names: Mapping[str, str]) -> Source | None:
    """Return the file, whose uint8 tensors have names of int8 ones, too."""
    if graph.source is None:
        return None
    origins = dict(graph.source.origins)
    signed = {y: replace(origins[x], unsigned=True) for x, y in names.items() if x in origins}
    return replace(graph.source, origins=origins | signed)


def _is_unsigned(tensor: Tensor) -> bool:
    return tensor.dtype == "uint8" and tensor.quantization is not None


def _signed(tensor: Tensor, name: str) -> Tensor:
    assert tensor.quantization is not None
    points = tensor.quantization.zero_point - _HALF
    quantization = replace(tensor.quantization, zero_point=points)
    data = None if tensor.data is None else (tensor.data.astype(np.int16) - _HALF).astype(np.int8)
    return Tensor(name, tensor.shape, "int8", quantization, data)
