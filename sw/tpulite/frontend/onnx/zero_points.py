"""Zero points that only the run knows: products with a fixed one, and what that leaves out."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.library import open_session
from tpulite.frontend.onnx.read.attributes import static_shape

_PRODUCTS = ("ConvInteger", "MatMulInteger")

_NEUTRAL = 128
"""Zero point of uint8 activations with which sums are those of int8."""


def fix_zero_points(model: onnx.ModelProto) -> None:
    """Let products of dynamically quantized activations have a zero point of 128, in place.

    A sum of (x - z) * w is that of (x - 128) * w and (128 - z) times the sum of w, as far as the
    window lies inside the feature map: a constant, which int32 operators add.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, RuntimeError):
        return
    graph = inferred.graph
    types = {value.name: value for value in (*graph.value_info, *graph.input)}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        shape = static_shape(types[node.input[0]]) if node.input[0] in types else None
        if shape is None or not _is_dynamic(node, constants):
            nodes.append(node)
            continue
        ones = _sums_of_ones(node, shape, model, constants)
        nodes += _with_fixed_point(node, ones, model.graph)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _is_dynamic(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> bool:
    """Tell whether a product has constant weights, and a zero point that is computed."""
    if node.op_type not in _PRODUCTS or len(node.input) < 3 or node.input[2] in constants:
        return False
    known = all(name in constants for name in (node.input[1], *node.input[3:]))
    return bool(node.input[2]) and known


def _sums_of_ones(
    node: onnx.NodeProto,
    shape: tuple[int, ...],
    model: onnx.ModelProto,
    constants: dict[str, onnx.TensorProto],
) -> np.ndarray:
    """Return the product of activations that are 1 everywhere."""
    ones = numpy_helper.from_array(np.ones(shape, np.uint8), node.input[0])
    inputs = [*node.input[:2], "", *node.input[3:]]
    alone = helper.make_node(node.op_type, inputs, ["sums"])
    alone.attribute.extend(node.attribute)
    weights = [constants[name] for name in (node.input[1], *node.input[3:])]
    result = helper.make_tensor_value_info("sums", onnx.TensorProto.INT32, None)
    graph = helper.make_graph([alone], "ones", [], [result], [ones, *weights])
    opsets = [entry for entry in model.opset_import if not entry.domain]
    file = helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)
    (sums,) = open_session(file.SerializeToString(), "DISABLE_ALL").run(None, {})
    return _without_repetition(np.asarray(sums))


def _without_repetition(sums: np.ndarray) -> np.ndarray:
    """Return sums with an extent of 1 along axes on which they do not depend."""
    for axis in range(sums.ndim):
        first = sums.take([0], axis)
        sums = first if np.all(sums == first) else sums
    return sums


def _with_fixed_point(
    node: onnx.NodeProto, ones: np.ndarray, graph: onnx.GraphProto
) -> Iterator[onnx.NodeProto]:
    y = node.output[0]

    def constant(role: str, value: np.ndarray) -> str:
        graph.initializer.append(numpy_helper.from_array(value, f"{y}/{role}"))
        return f"{y}/{role}"

    def step(op: str, role: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs, [role], name=f"{node.name}/{op}", **attributes)

    point, neutral = node.input[2], np.array(_NEUTRAL, np.int32)
    wide, shift, rest, sums = (f"{y}/{role}" for role in ("wide", "shift", "rest", "sums"))
    node.input[2] = constant("neutral", neutral.astype(np.uint8))
    node.output[0] = sums
    yield node
    yield step("Cast", wide, point, to=onnx.TensorProto.INT32)
    yield step("Sub", shift, constant("middle", neutral), wide)
    yield step("Mul", rest, shift, constant("ones", ones))
    yield step("Add", y, sums, rest)
