"""Functions that exporters write with powers: cubes, and sigmoids as 1 / (1 + exp(-x))."""

import onnx
from onnx import helper

from tpulite.quant.floats.graph import Links, replace_node


def join_sigmoids(graph: onnx.GraphProto) -> None:
    """Make one operator of a sigmoid, and two of x / (1 + exp(-x)); what is between has 8 bits.

    Parameters
    ----------
    graph : GraphProto
        Changed in place.
    """
    links = Links(graph)
    for node in [x for x in graph.node if x.op_type in ("Reciprocal", "Div")]:
        total = links.writer.get(node.input[-1])
        x = _negated_power(total, links)
        if total is None or x is None or links.only_reader(total.output[0]) is None:
            continue
        y = node.output[0]
        over = node.input[0] if node.op_type == "Div" else None
        alone = over is None or links.scalar(over) == 1
        sigmoid = y if alone else f"{y}_sigmoid"
        made = [helper.make_node("Sigmoid", [x], [sigmoid], name=f"{y}_Sigmoid")]
        if over is not None and not alone:
            made.append(helper.make_node("Mul", [over, sigmoid], [y], name=f"{y}_Mul"))
        replace_node(graph, node, made)


def _negated_power(node: onnx.NodeProto | None, links: Links) -> str | None:
    """Return the x of an operator that computes 1 + exp(-x)."""
    if node is None or node.op_type != "Add" or 1 not in map(links.scalar, node.input):
        return None
    power = next((links.writer.get(x) for x in node.input if links.scalar(x) is None), None)
    if power is None or power.op_type != "Exp":
        return None
    negated = links.writer.get(power.input[0])
    if negated is None:
        return None
    if negated.op_type == "Mul" and -1 in map(links.scalar, negated.input):
        return next(x for x in negated.input if links.scalar(x) is None)
    return negated.input[0] if negated.op_type == "Neg" else None


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
