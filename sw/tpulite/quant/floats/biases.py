"""Constants around products that belong into them: biases and factors."""

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.quant.floats.graph import MOVING, Links


def join_biases(model: onnx.ModelProto) -> None:
    """Make one Gemm of a MatMul with constant weights and an Add of one number a column.

    A bias beside a product would be rounded to 8 bits, and the product twice; a Gemm has it in 32
    bits. Reshapes around it make matrices of tensors with more axes.
    """
    inferred = onnx.shape_inference.infer_shapes(model)
    shapes = {
        value.name: [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        for value in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output)
    }
    links = Links(model.graph)
    nodes: list[onnx.NodeProto] = []
    joined: dict[int, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        add = links.only_reader(node.output[0]) if node.op_type == "MatMul" else None
        if add is None or add.op_type != "Add":
            continue
        weight = links.constants.get(node.input[1])
        bias = next((x for x in add.input if x in links.constants), None)
        shape = shapes.get(node.input[0], [])
        if weight is None or weight.ndim != 2 or bias is None or not shape or 0 in shape:
            continue
        values = links.constants[bias]
        if values.shape == (weight.shape[1],):
            joined[id(add)] = _gemm(model.graph, node, add, bias, shape)
            joined[id(node)] = []
    for node in model.graph.node:
        nodes += joined.get(id(node), [node])
    if joined:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        del model.graph.value_info[:]


def _gemm(
    graph: onnx.GraphProto, node: onnx.NodeProto, add: onnx.NodeProto, bias: str, shape: list[int]
) -> list[onnx.NodeProto]:
    """Return the operators of a product with a bias."""
    x, weight = node.input
    y = add.output[0]
    if len(shape) == 2:
        return [helper.make_node("Gemm", [x, weight, bias], [y], name=node.name)]
    columns = next(t for t in graph.initializer if t.name == weight).dims[1]
    flat, back = f"{y}_rows", f"{y}_shape"
    rows = np.array([math.prod(shape[:-1]), shape[-1]])
    graph.initializer.append(numpy_helper.from_array(rows, flat))
    graph.initializer.append(numpy_helper.from_array(np.array([*shape[:-1], columns]), back))
    return [
        helper.make_node("Reshape", [x, flat], [f"{y}_matrix"], name=f"{y}_matrix"),
        helper.make_node("Gemm", [f"{y}_matrix", weight, bias], [f"{y}_gemm"], name=node.name),
        helper.make_node("Reshape", [f"{y}_gemm", back], [y], name=f"{y}_reshape"),
    ]


def fold_factors(model: onnx.ModelProto) -> None:
    """Put factors of one number into the constants of the product before them.

    Attention scales its queries or scores; a rounding of its own would be between. Behind a
    rotation by position the constants are its cosines and sines, of which the product gets copies.
    """
    changed = True
    while changed:
        changed = False
        links = Links(model.graph)
        for node in model.graph.node:
            factor = _factor(node, links)
            if factor is None:
                continue
            x, value = factor
            found = _product(x, links, across=True)
            if found is None or any(
                len(links.readers[place.name]) > 1 and place.node.op_type != "Mul"
                for place in found
            ):
                continue
            for place in found:
                _scale(model.graph, place, value, links)
            _remove(model.graph, node, x, {id(place.node) for place in found}, links)
            changed = True
            break


def _factor(node: onnx.NodeProto, links: Links) -> tuple[str, float] | None:
    """Return what an operator multiplies, and by which number."""
    if node.op_type not in ("Mul", "Div") or node.output[0] in links.outputs:
        return None
    value = links.scalar(node.input[1])
    if value is not None and value != 0:
        return node.input[0], 1 / value if node.op_type == "Div" else value
    value = links.scalar(node.input[0])
    return (node.input[1], value) if node.op_type == "Mul" and value is not None else None


@dataclass(frozen=True)
class _Place:
    """Where a constant is read."""

    node: onnx.NodeProto
    index: int

    @property
    def name(self) -> str:
        return self.node.input[self.index]


def _product(name: str, links: Links, *, across: bool) -> list[_Place] | None:
    """Return the constants in which a factor of a tensor can be: weights, and perhaps a bias."""
    while True:
        node = links.writer.get(name)
        if node is None or links.only_reader(name) is None:
            return None
        if node.op_type in MOVING:
            name = node.input[0]
            continue
        break
    if node.op_type == "Add":
        bias = _constant_of(node, links)
        if bias is None:
            return _turned(node, links)
        found = _product(node.input[1 - bias.index], links, across=False)
        return None if found is None else [*found, bias]
    if node.op_type == "Gemm" and all(x in links.constants for x in node.input[1:]):
        return [_Place(node, index) for index in range(1, len(node.input))]
    if node.op_type == "MatMul" and node.input[1] in links.constants:
        return [_Place(node, 1)]
    if node.op_type == "MatMul" and across and node.input[0] not in links.constants:
        return _product(node.input[0], links, across=False)
    return None


def _constant_of(node: onnx.NodeProto, links: Links) -> _Place | None:
    """Return the constant that an operator of two inputs reads."""
    places = (i for i, x in enumerate(node.input) if x in links.constants)
    return next((_Place(node, index) for index in places), None)


def _turned(node: onnx.NodeProto, links: Links) -> list[_Place] | None:
    """Return the cosines and sines of a rotation: a sum of two products with constants."""
    found = []
    for name in node.input:
        writer = links.writer.get(name)
        if writer is None or writer.op_type != "Mul" or links.only_reader(name) is None:
            return None
        found.append(_constant_of(writer, links))
    return None if None in found else [place for place in found if place is not None]


def _scale(graph: onnx.GraphProto, place: _Place, factor: float, links: Links) -> None:
    """Multiply a constant, or a copy of it if others read it, too."""
    name = place.name
    value = links.constants[name] * np.asarray(factor, links.constants[name].dtype)
    if len(links.readers[name]) > 1:
        place.node.input[place.index] = f"{place.node.output[0]}/{name}"
        graph.initializer.append(numpy_helper.from_array(value, place.name))
        return
    tensor = next(t for t in graph.initializer if t.name == name)
    tensor.CopyFrom(numpy_helper.from_array(value, name))


def _remove(
    graph: onnx.GraphProto, node: onnx.NodeProto, x: str, scaled: set[int], links: Links
) -> None:
    """Take out a factor, which is in the constants of some operators already.

    What it read is named after its result, for that it is now.
    """
    before, names = {id(each) for each in links.before(x)}, {}
    for each in graph.node:
        if id(each) in before and (id(each) in scaled or not names.keys().isdisjoint(each.input)):
            (y,) = each.output
            names[y] = node.output[0] if y == x else f"{y}/scaled"
    graph.node.remove(node)
    for each in graph.node:
        for ends in (each.input, each.output):
            for index, name in enumerate(ends):
                ends[index] = names.get(name, name)
