"""Functions of one number and arithmetic of ONNX."""

import numpy as np

from tpulite.frontend.onnx.read.model import OnnxNode
from tpulite.frontend.onnx.translate.importer import Importer, Rule, UncoveredError
from tpulite.graph.functions import FUNCTIONS

_OPERATORS = {each.onnx: op for op, each in FUNCTIONS.items() if each.onnx}

UNARY = frozenset({*FUNCTIONS, "expression", "quantize", "dequantize", "requantize"})
"""Operators that work number by number, on one tensor."""

BINARY = ("add", "sub", "mul", "maximum", "minimum", "pow", "prelu")
"""Operators that work number by number, on two tensors."""

_CLIPS = {(0.0, np.inf): "relu", (0.0, 6.0): "relu6", (-1.0, 1.0): "relu_n1_1"}


def _function(graph: Importer, node: OnnxNode) -> None:
    op = _OPERATORS[node.op]
    defaults = FUNCTIONS[op].attributes
    attributes = {name: float(node.attributes.get(name, defaults[name])) for name in defaults}
    graph.check_numbers(node.inputs[0])
    graph.emit(op, node.inputs, node.outputs, **attributes)


def _relu(graph: Importer, node: OnnxNode) -> None:
    """Emit a relu; of integers the one that compares them with 0, whatever they mean."""
    if graph.quantization(node.inputs[0]) is None:
        _function(graph, node)
    else:
        _clip_integers(graph, node, 0, np.inf)


def _gelu(graph: Importer, node: OnnxNode) -> None:
    graph.check_numbers(node.inputs[0])
    approximate = node.attributes.get("approximate", "none") == "tanh"
    graph.emit("gelu", node.inputs, node.outputs, approximate=approximate)


def _clip(graph: Importer, node: OnnxNode) -> None:
    bounds = []
    for index, attribute, unlimited in ((1, "min", -np.inf), (2, "max", np.inf)):
        value: float | np.ndarray | None = node.attributes.get(attribute, unlimited)
        if index < len(node.inputs) and node.inputs[index]:
            value = graph.known(node.inputs[index])
            if value is None or value.size != 1:
                raise UncoveredError("its bounds are computed at run time")
            value = float(value.reshape(-1)[0])
        bounds.append(_unlimited(float(value)))  # type: ignore[arg-type]
    x = node.inputs[0]
    graph.known_shape(x)
    low, high = bounds
    if not graph.dtype(x).startswith("float"):
        _clip_integers(graph, node, low, high)
    elif (low, high) == (-np.inf, np.inf):
        graph.alias(node.outputs[0], x)
    elif (low, high) in _CLIPS:
        graph.emit(_CLIPS[low, high], [x], node.outputs)
    else:
        graph.emit("clip", [x], node.outputs, low=low, high=high)


def _clip_integers(graph: Importer, node: OnnxNode, low: float, high: float) -> None:
    """Emit a clip of what integers mean; they have the same scale before and after."""
    meaning = graph.quantization(node.inputs[0])
    if meaning is None or meaning.axis is not None:
        raise UncoveredError("it clips integers that have no scale")
    graph.quantize_tensor(node.outputs[0], meaning)
    least, most = _extremes(graph.dtype(node.inputs[0]))
    limits = np.clip([low, high], least, most).astype(np.int64)
    bounds = meaning.real(limits).astype(np.float32).tolist()
    real_low = -np.inf if low <= least else bounds[0]
    real_high = np.inf if high >= most else bounds[1]
    if op := _CLIPS.get((real_low, real_high)):
        graph.emit(op, node.inputs[:1], node.outputs)
    else:
        graph.emit("clip", node.inputs[:1], node.outputs, low=real_low, high=real_high)


def _extremes(dtype: str) -> tuple[int, int]:
    """Return the least and the largest integer of a type."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _unlimited(value: float) -> float:
    """Return infinity for the largest float32, which old files write instead."""
    largest = float(np.finfo(np.float32).max)
    return float(np.copysign(np.inf, value)) if abs(value) >= largest else value


def _prelu(graph: Importer, node: OnnxNode) -> None:
    slope = graph.known(node.inputs[1])
    if slope is None or not slope.size or np.any(slope != slope.reshape(-1)[0]):
        _two("prelu")(graph, node)
    else:
        alpha = float(slope.reshape(-1)[0])
        graph.emit("leaky_relu", node.inputs[:1], node.outputs, alpha=alpha)


def _two(op: str, **attributes: str) -> Rule:
    def rule(graph: Importer, node: OnnxNode) -> None:
        graph.check_numbers(*node.inputs, *node.outputs)
        if len(node.inputs) != 2:
            raise UncoveredError(f"it has {len(node.inputs)} operands")
        graph.emit(op, node.inputs, node.outputs, **attributes)

    return rule


def _power(graph: Importer, node: OnnxNode) -> None:
    exponent = graph.known(node.inputs[1])
    axes = len(graph.shape(node.inputs[0]) or ())
    if exponent is None or exponent.size != 1 or exponent.ndim > axes:
        _two("pow")(graph, node)
        return
    graph.check_numbers(node.inputs[0])
    if exponent.item(0) == 2:
        graph.emit("square", node.inputs[:1], node.outputs)
    else:
        graph.emit("power", node.inputs[:1], node.outputs, exponent=float(exponent.item(0)))


def _arithmetic(op: str) -> Rule:
    return _two(op, activation="none")


def _divide(graph: Importer, node: OnnxNode) -> None:
    """Emit a multiplication by the reciprocal if the divisor is known."""
    divisor = graph.constant(node.inputs[1])
    x = node.inputs[0]
    graph.known_shape(x)
    if divisor is None or divisor.dtype.kind != "f" or 0 in divisor:
        raise UncoveredError("its divisor is zero, or computed at run time")
    factor = graph.add_constant("reciprocal", np.asarray(1 / divisor, divisor.dtype))
    graph.emit("mul", [x, factor], node.outputs, activation="none")


ELEMENTWISE_RULES: dict[str, Rule] = {
    **dict.fromkeys(_OPERATORS, _function),
    "Relu": _relu,
    "Add": _arithmetic("add"),
    "Clip": _clip,
    "Div": _divide,
    "Gelu": _gelu,
    "Max": _two("maximum"),
    "Min": _two("minimum"),
    "Mul": _arithmetic("mul"),
    "PRelu": _prelu,
    "Pow": _power,
    "Sub": _arithmetic("sub"),
    "Sum": _arithmetic("add"),
}
