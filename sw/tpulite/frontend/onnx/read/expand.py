"""Operators of several steps in terms of standard ones.

``QLinearConv`` is DequantizeLinear, Conv, QuantizeLinear, so one way into the machine serves both
forms. Operators whose scales are not constants stay as they are. ``FusedConv`` is Conv and an
activation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import array, attributes_of

_CONTRIBUTED = "com.microsoft"
_WITH_BIAS = 3  # inputs; a fourth is added to the result
ACTIVATIONS = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}
"""Activations that ONNX Runtime fuses, and the names of their parameters."""

_SOFTMAX_OF_ONE_AXIS = 13  # older ones flatten all axes from the given one on


class _Expansion:
    """New nodes and constants that replace one node."""

    def __init__(self, node: onnx.NodeProto, constants: dict[str, np.ndarray], opset: int) -> None:
        self.node = node
        self.constants = constants
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def scale(self, index: int) -> np.ndarray:
        """Return a constant input; KeyError if it is computed or missing."""
        return self.constants[self.node.input[index]]

    def constant(self, value: np.ndarray, role: str) -> str:
        """Add a constant: a scalar if it has one element."""
        name = f"{self.node.output[0]}/{role}"
        value = value.reshape(()) if value.size == 1 else value.reshape(-1)
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def dequantize(self, tensor: int, scale: int, *, axis: int = 0) -> str:
        """Add the float value of input ``tensor``, whose zero point follows its scale."""
        values = self.scale(scale).astype(np.float32)
        name = self.node.input[tensor]
        inputs = [name, self.constant(values, f"{tensor}.scale")]
        if zero_point := self._input(scale + 1):
            inputs.append(self.constant(self.constants[zero_point], f"{tensor}.zero_point"))
        return self._dequantized(inputs, tensor, axis)

    def bias(self, tensor: int, x_scale: int, weight_scale: int) -> list[str]:
        """Add the float value of an int32 bias, if there is one."""
        if not (name := self._input(tensor)):
            return []
        scale = self.scale(x_scale).astype(np.float32) * self.scale(weight_scale)
        scale_name = self.constant(scale.astype(np.float32), f"{tensor}.scale")
        return [self._dequantized([name, scale_name], tensor, 0)]

    def _dequantized(self, inputs: list[str], tensor: int, axis: int) -> str:
        output = f"{self.node.output[0]}/{tensor}.float"
        self.nodes.append(
            helper.make_node("DequantizeLinear", inputs, [output], name=output, axis=axis)
        )
        return output

    def compute(self, op: str, inputs: Sequence[str], scale: int, *, drop: str = "") -> None:
        """Add the operator and the quantization of its result; attribute ``drop`` is left out."""
        result = f"{self.node.output[0]}/float"
        node = helper.make_node(op, inputs, [result], name=self.node.name)
        node.attribute.extend(a for a in self.node.attribute if a.name != drop)
        self.nodes.append(node)
        values = self.scale(scale).astype(np.float32)
        names = [result, self.constant(values, "scale")]
        if zero_point := self._input(scale + 1):
            names.append(self.constant(self.constants[zero_point], "zero_point"))
        self.nodes.append(
            helper.make_node("QuantizeLinear", names, list(self.node.output), name=f"{result}.q")
        )

    def _input(self, index: int) -> str:
        return self.node.input[index] if index < len(self.node.input) else ""


def _conv(e: _Expansion) -> None:
    inputs = [e.dequantize(0, 1), e.dequantize(3, 4), *e.bias(8, 1, 4)]
    e.compute("Conv", inputs, 6)


def _matmul(e: _Expansion) -> None:
    e.compute("MatMul", [e.dequantize(0, 1, axis=-2), e.dequantize(3, 4, axis=-1)], 6)


def _gemm(e: _Expansion) -> None:
    attributes = attributes_of(e.node)
    if attributes.get("alpha", 1.0) != 1.0:
        raise KeyError("alpha")
    inputs = [
        e.dequantize(0, 1),
        e.dequantize(3, 4, axis=0 if attributes.get("transB", 0) else 1),
        *e.bias(6, 1, 4),
    ]
    e.compute("Gemm", inputs, 7)


def _binary(op: str) -> Callable[[_Expansion], None]:
    return lambda e: e.compute(op, [e.dequantize(0, 1), e.dequantize(3, 4)], 6)


def _unary(op: str) -> Callable[[_Expansion], None]:
    def expand_unary(e: _Expansion) -> None:
        if attributes_of(e.node).get("channels_last"):
            raise KeyError("channels_last")
        e.compute(op, [e.dequantize(0, 1)], 3, drop="channels_last")

    return expand_unary


def _softmax(e: _Expansion) -> None:
    """Expand softmax, which means what Softmax of version ``opset`` does."""
    attributes = attributes_of(e.node)
    newer = {opset >= _SOFTMAX_OF_ONE_AXIS for opset in (attributes["opset"], e.opset)}
    if len(newer) > 1:
        raise KeyError("opset")
    if "axis" not in attributes:
        e.node.attribute.append(helper.make_attribute("axis", -1))
    e.compute("Softmax", [e.dequantize(0, 1)], 3, drop="opset")


def _concat(e: _Expansion) -> None:
    e.compute("Concat", [e.dequantize(i, i + 1) for i in range(2, len(e.node.input), 3)], 0)


def activation_numbers(attributes: Mapping[str, Any]) -> Sequence[float]:
    """Return the numbers of a fused activation: FusedConv has a list, FusedGemm names each."""
    each = (attributes.get(f"activation_{name}") for name in ("alpha", "beta", "gamma"))
    return attributes.get("activation_params", [x for x in each if x is not None])


def _fused(op: str) -> Callable[[_Expansion], None]:
    """Take an operator on floats and its activation apart again."""

    def expand_fused(e: _Expansion) -> None:
        attributes = attributes_of(e.node)
        activation = attributes["activation"]
        if activation not in ACTIVATIONS or len(e.node.input) > _WITH_BIAS:
            raise KeyError(activation)
        y, product = e.node.output[0], f"{e.node.output[0]}/product"
        given = activation_numbers(attributes)
        node = helper.make_node(op, list(e.node.input), [product], name=e.node.name)
        node.attribute.extend(a for a in e.node.attribute if not a.name.startswith("activation"))
        parameters: dict[str, Any] = dict(zip(ACTIVATIONS[activation], given, strict=False))
        after = helper.make_node(activation, [product], [y], name=y, **parameters)
        e.nodes += [node, after]

    return expand_fused


EXPANSIONS: dict[tuple[str, str], Callable[[_Expansion], None]] = {
    ("", "QLinearConv"): _conv,
    ("", "QLinearMatMul"): _matmul,
    (_CONTRIBUTED, "QGemm"): _gemm,
    (_CONTRIBUTED, "FusedConv"): _fused("Conv"),
    (_CONTRIBUTED, "FusedGemm"): _fused("Gemm"),
    (_CONTRIBUTED, "QLinearAdd"): _binary("Add"),
    (_CONTRIBUTED, "QLinearMul"): _binary("Mul"),
    (_CONTRIBUTED, "QLinearConcat"): _concat,
    (_CONTRIBUTED, "QLinearSigmoid"): _unary("Sigmoid"),
    (_CONTRIBUTED, "QLinearSoftmax"): _softmax,
    (_CONTRIBUTED, "QLinearLeakyRelu"): _unary("LeakyRelu"),
    (_CONTRIBUTED, "QLinearAveragePool"): _unary("AveragePool"),
    (_CONTRIBUTED, "QLinearGlobalAveragePool"): _unary("GlobalAveragePool"),
}


def expand(model: onnx.ModelProto, opset: int) -> dict[str, str]:
    """Replace quantized operators in place, in a model with this version of the standard ones.

    Returns
    -------
    dict of str to str
        What the file calls the operators of the nodes that were replaced, by name of node.
    """
    graph = model.graph
    constants = {tensor.name: array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = array(node.attribute[0].t)
    nodes: list[onnx.NodeProto] = []
    sources: dict[str, str] = {}
    for index, node in enumerate(graph.node):
        if node.domain == _CONTRIBUTED and node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = ""  # the same operators, from before they were standard
        rule = EXPANSIONS.get((node.domain, node.op_type))
        expansion = _Expansion(node, constants, opset)
        if rule is not None:
            node.name = node.name or f"{node.op_type}_{index}"
            try:
                rule(expansion)
            except (KeyError, IndexError):
                rule = None
        if rule is None:
            nodes.append(node)
            continue
        sources[node.name] = node.op_type
        nodes += expansion.nodes
        graph.initializer.extend(expansion.initializers)
    del graph.node[:]
    graph.node.extend(nodes)
    return sources
