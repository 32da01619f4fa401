"""Cubes as products, of which functions of integers consist."""

import onnx
from onnx import helper

from tpulite.quant.floats.graph import Links, replace_node

_CUBE = 3


def multiply_cubes(graph: onnx.GraphProto) -> None:
    """Write cubes, which GELU by tanh has, as products."""
    links = Links(graph)
    for node in [x for x in graph.node if x.op_type == "Pow" and links.scalar(x.input[1]) == _CUBE]:
        x, square = node.input[0], f"{node.output[0]}_square"
        made = [
            helper.make_node("Mul", [x, x], [square], name=square),
            helper.make_node("Mul", [x, square], list(node.output), name=node.name),
        ]
        replace_node(graph, node, made)
