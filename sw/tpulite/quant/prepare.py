"""What a float ONNX network needs before ONNX Runtime's quantizer can do well."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.constants import add_constant

__all__ = ["prepare", "standard_opset"]

_HARD_SWISH = 14
"""Version of the operators that brought HardSwish."""

_SHAPES = ("gemm_input_shape", "gemm_output_shape")
"""How names of extents begin that ONNX Runtime adds where it joins MatMul and Add."""

_HARD_SIGMOID = {"alpha": 0.2, "beta": 0.5}


def prepare(path: Path) -> None:
    """Change a file in place: HardSwish in one piece, Gemm without factors and with flat biases."""
    model = onnx.load(path)
    if standard_opset(model) >= _HARD_SWISH:
        _restore_hard_swish(model.graph)
    _simplify_products(model.graph)
    _rename_shapes(model.graph)
    onnx.save(model, path)


def standard_opset(model: onnx.ModelProto) -> int:
    """Return the version of the standard operators; 0 if there is none."""
    return max((entry.version for entry in model.opset_import if not entry.domain), default=0)


def _rename_shapes(graph: onnx.GraphProto) -> None:
    """Rename extents around products, or ONNX Runtime uses their names again for others."""
    names = {x.name: f"{x.name}_kept" for x in graph.initializer if x.name.startswith(_SHAPES)}
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)


def _restore_hard_swish(graph: onnx.GraphProto) -> None:
    """Join what ONNX Runtime takes apart: x * HardSigmoid(x) has a scale too many in between."""
    halves = {}
    for node in graph.node:
        if node.op_type == "HardSigmoid":
            factors = _HARD_SIGMOID | attributes_of(node)
            if np.isclose(factors["alpha"], 1 / 6) and factors["beta"] == 0.5:
                halves[node.output[0]] = node.input[0]
    for node in graph.node:
        if node.op_type != "Mul":
            continue
        for x, half in (tuple(node.input), tuple(reversed(node.input))):
            if halves.get(half) == x:
                node.op_type = "HardSwish"
                del node.input[:]
                node.input.append(x)
                break
    used = {name for node in graph.node for name in node.input} | {o.name for o in graph.output}
    _replace(graph, [n for n in graph.node if n.output[0] not in halves or n.output[0] in used])


def _simplify_products(graph: onnx.GraphProto) -> None:
    """Put factors into constants; the quantizer takes only biases of one number a column."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        known = node.op_type == "Gemm" and all(name in values for name in node.input[1:])
        nodes += _simple_gemm(graph, node, values) if known else [node]
    _replace(graph, nodes)


def _simple_gemm(
    graph: onnx.GraphProto, node: onnx.NodeProto, values: dict[str, np.ndarray]
) -> Iterator[onnx.NodeProto]:
    attributes = attributes_of(node)
    weight = values[node.input[1]] * np.float32(attributes.get("alpha", 1.0))
    columns = weight.shape[0 if attributes.get("transB", 0) else 1]
    y = node.output[0]
    inputs = [node.input[0], add_constant(graph, f"{y}_weight", weight)]
    flags = {name: attributes[name] for name in ("transA", "transB") if name in attributes}
    if len(node.input) < 3 or not node.input[2]:
        yield helper.make_node("Gemm", inputs, [y], name=node.name, **flags)
        return
    bias = values[node.input[2]] * np.float32(attributes.get("beta", 1.0))
    if bias.size in (1, columns):
        bias = np.broadcast_to(bias.reshape(-1), (columns,))
        inputs.append(add_constant(graph, f"{y}_bias", bias))
        yield helper.make_node("Gemm", inputs, [y], name=node.name, **flags)
        return
    product = f"{y}_product"
    yield helper.make_node("Gemm", inputs, [product], name=node.name, **flags)
    added = add_constant(graph, f"{y}_added", bias)
    yield helper.make_node("Add", [product, added], [y], name=f"{node.name}_add")


def _replace(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)
