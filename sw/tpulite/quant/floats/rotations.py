"""Rotations of channels by position, as attention has them before its scores.

Exporters write them as a product with cosines, plus a product with sines of channels that changed
places, some with the other sign: slices, a negation and a concatenation.
"""

import numpy as np
import onnx
from onnx import helper

from tpulite.frontend.onnx.cut import cut_onnx
from tpulite.frontend.onnx.library import open_session
from tpulite.quant.floats.axes import Axes, add_constant
from tpulite.quant.floats.graph import PRODUCTS, Links, replace_node

_MOVES = frozenset({"Slice", "Split", "Concat", "Neg", "Unsqueeze", "Squeeze", "Reshape"})
"""Operators that only take numbers elsewhere, or change their sign."""


_CURVES = ("Cos", "Sin")


def multiply_positions(model: onnx.ModelProto) -> None:
    """Write products of a column and a row, as of positions and rates before cosines, with Mul.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place.
    """
    links = Links(model.graph)
    axes = Axes(model, links)
    for curve in [x for x in model.graph.node if x.op_type in _CURVES]:
        for node in links.before(curve.input[0]):
            column = axes.shape(node.input[0]) if node.op_type == "MatMul" else []
            if len(column) > 1 and column[-1] == 1 and _is_matrix(node.input[1], links, axes):
                node.op_type = "Mul"


def _is_matrix(name: str, links: Links, axes: Axes) -> bool:
    """Tell whether a tensor has rows and columns."""
    constant = links.constants.get(name)
    return (axes.rank(name) if constant is None else constant.ndim) > 1


def angles_of(graph: onnx.GraphProto) -> frozenset[str]:
    """Return the names of the operators that make cosines and sines of inputs: they stay in floats.

    8 bits of an angle of many turns hold nothing.
    """
    links = Links(graph)
    found: set[str] = set()
    for curve in [x for x in graph.node if x.op_type in _CURVES]:
        before = links.before(curve.output[0])
        if all(node.op_type not in PRODUCTS for node in before):
            found |= {node.name for node in before}
    return frozenset(found)


def turn_by_products(model: onnx.ModelProto) -> None:
    """Write channels that change places and signs as a product with a matrix of 1, 0 and -1.

    Int8 has the matrix exactly, so nothing is rounded; the array takes one pass instead of slices,
    negation and concatenation, each of which would read and write the tensor.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place.
    """
    links, done = Links(model.graph), set[str]()
    axes = Axes(model, links)
    for node in [x for x in model.graph.node if x.op_type == "Mul"]:
        for index, name in enumerate(node.input):
            if any(each.op_type in PRODUCTS for each in links.before(node.input[1 - index])):
                continue
            found = None if name in done else _turned(name, links, axes, model)
            if found is None:
                continue
            done.add(name)
            made = _product(*found, name, links, axes, model.graph)
            replace_node(model.graph, links.writer[name], made)


def _product(
    x: str, matrix: np.ndarray, y: str, links: Links, axes: Axes, graph: onnx.GraphProto
) -> list[onnx.NodeProto]:
    """Return the product that turns channels, before the transpose of heads if there is one."""
    constant = add_constant(graph, f"{y}_matrix", matrix)
    before = links.writer.get(x)
    last = axes.rank(x) - 1
    if before is None or before.op_type != "Transpose" or axes.before(before, last) != last:
        return [helper.make_node("MatMul", [x, constant], [y], name=f"{y}_turned")]
    product = helper.make_node(
        "MatMul", [before.input[0], constant], [f"{y}_flat"], name=f"{y}_turned"
    )
    transpose = helper.make_node("Transpose", [f"{y}_flat"], [y], name=f"{y}_Transpose")
    transpose.attribute.extend(before.attribute)
    return [product, transpose]


def _turned(
    name: str, links: Links, axes: Axes, model: onnx.ModelProto
) -> tuple[str, np.ndarray] | None:
    """Return the tensor whose last axis was moved, and the matrix that does that."""
    node = links.writer.get(name)
    matrix = links.constants.get(node.input[1]) if node and node.op_type == "MatMul" else None
    if node is not None and matrix is not None and _is_turn(matrix):
        return node.input[0], matrix
    shape = axes.shape(name)
    source = _source(name, links, axes) if shape and 0 not in shape else None
    if source is None:
        return None
    places = 1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    moved = _run(model, source, name, places)
    channels = shape[-1]
    first = np.abs(moved).reshape(-1, channels)[0].astype(int) - 1
    matrix = np.zeros((channels, channels), np.float32)
    if first.max() >= channels:
        return None
    matrix[first, np.arange(channels)] = np.sign(moved.reshape(-1, channels)[0])
    return (source, matrix) if np.array_equal(places @ matrix, moved) else None


def _is_turn(matrix: np.ndarray) -> bool:
    """Tell whether a matrix takes each channel from one, perhaps with the other sign."""
    if matrix.ndim != 2 or len({*matrix.shape}) != 1 or not np.array_equal(matrix, np.sign(matrix)):
        return False
    return bool((np.abs(matrix).sum(axis=0) == 1).all())


def _source(name: str, links: Links, axes: Axes) -> str | None:
    """Return the one tensor of a shape from which moves make another; one of them is Concat."""
    node = links.writer.get(name)
    if node is None or node.op_type not in ("Concat", "Reshape") or links.only_reader(name) is None:
        return None
    joined, todo, found = False, [name], set()
    while todo:
        node = links.writer.get(now := todo.pop())
        if now != name and axes.shape(now) == axes.shape(name):
            found.add(now)
        elif node is None or node.op_type not in _MOVES:
            return None
        else:
            joined |= node.op_type == "Concat"
            todo += node.input if node.op_type == "Concat" else node.input[:1]
    return found.pop() if joined and len(found) == 1 else None


def _run(model: onnx.ModelProto, source: str, name: str, value: np.ndarray) -> np.ndarray:
    """Return what the operators between two tensors make of an array."""
    kind = {source: ("float32", value.shape)}
    part, _ = cut_onnx(model.SerializeToString(), kind, [name])
    return np.asarray(open_session(part, "DISABLE_ALL").run(None, {source: value})[0])
