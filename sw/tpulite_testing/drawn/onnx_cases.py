"""Networks of one quantized operator for ONNX Runtime, drawn by a seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tpulite.graph.functions import FUNCTIONS
from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite_testing.drawn.operator_cases import OPERATORS as TFLITE_OPERATORS
from tpulite_testing.drawn.operator_cases import Case, draw_case
from tpulite_testing.oracles.onnx_session import open_onnx

__all__ = ["OPERATORS", "draw_onnx_case", "run_ort"]

_DRAWN = (
    *("conv", "depthwise", "dense", "mul", "max_pool", "mean", "pad", "concat"),
    *("relu", "relu6", "clip", "leaky_relu", "elu", "gelu"),
    *("sigmoid", "tanh", "hard_swish", "requantize", "batch_norm"),
    *("abs", "neg", "sign", "ceil", "floor", "round", "exp", "log", "sin", "cos", "sqrt"),
    *("reciprocal", "erf", "softplus", "softsign", "mish", "hard_sigmoid", "selu"),
    *("maximum", "minimum", "prelu", "reduce_max", "reduce_min", "square", "power"),
)
_FUNCTIONS = {op: each for op, each in FUNCTIONS.items() if each.onnx}
OPERATORS = tuple(dict.fromkeys((*_DRAWN, *_FUNCTIONS)))
_TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
_FLOAT = {
    **{op: each.onnx for op, each in _FUNCTIONS.items()},
    "gelu": "Gelu",
    "maximum": "Max",
    "minimum": "Min",
    "prelu": "PRelu",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
}
_LIKE = {"clip": "relu6", **{op: op for op in TFLITE_OPERATORS}}
"""Operators of TFLite from whose cases those of ONNX are made; of other functions hard_swish."""
_NONNEGATIVE = ("sqrt", "log", "reciprocal")


def _uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.float32(rng.uniform(low, high)))


_ATTRIBUTES: Mapping[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "clip": lambda rng: {"low": _uniform(rng, -3, 0), "high": 2.5},
    "gelu": lambda rng: {"approximate": False},
    "hard_sigmoid": lambda rng: {"alpha": _uniform(rng, 0.05, 0.5), "beta": 0.5},
    "power": lambda rng: {"exponent": float(rng.choice([3, 3, 4, 5, -1, -2]))},
    "selu": lambda rng: {"alpha": _uniform(rng, 0.5, 2), "gamma": 1.125},
}
"""How attributes are drawn; those of other functions lie between 0.25 and 2."""


def draw_onnx_case(op: str, seed: int) -> tuple[Case, bytes]:
    """Draw a case, as a graph and as an ONNX model; both have the same inputs."""
    if op == "batch_norm":
        case = _batch_norm(seed)
    else:
        drawn = draw_case(_LIKE.get(op, "hard_swish"), seed)
        graph = _as_onnx(drawn.graph, op, seed)
        inputs = tuple(
            value.reshape(graph.tensors[name].shape)
            for name, value in zip(drawn.graph.inputs, drawn.inputs, strict=True)
            if name in graph.inputs
        )
        case = Case(f"{op}-{seed}", graph, b"", inputs)
    return case, _Writer(case.graph).write()


def run_ort(case: Case, model: bytes) -> np.ndarray:
    """Return ONNX Runtime's output in the order of axes of the graph."""
    session = open_onnx(model, threads=1)
    feeds = {
        name: _to_file(value) for name, value in zip(case.graph.inputs, case.inputs, strict=True)
    }
    result = np.asarray(session.run(None, feeds)[0])
    shape = case.graph.tensors["y"].shape
    return (result.transpose(0, 2, 3, 1) if result.ndim == 4 else result).reshape(shape)


def _as_onnx(graph: Graph, op: str, seed: int) -> Graph:
    """Make a TFLite graph one that ONNX operators can express."""
    (node,) = graph.nodes
    rng = np.random.default_rng([99, seed])
    attributes = dict(node.attributes)
    tensors = dict(graph.tensors)
    if "activation" in attributes:
        attributes["activation"] = "none"
    if "keep_dims" in attributes:
        attributes["keep_dims"] = True
        shape = tensors["x"].shape
        kept = tuple(1 if i in attributes["axes"] else n for i, n in enumerate(shape))
        y = replace(tensors["y"], shape=kept)
        if op != "mean":  # a scale of its own
            scale = y.quantization.scale * np.float32(rng.uniform(0.5, 2))  # type: ignore[union-attr]
            y = replace(y, quantization=Quantization(scale, y.quantization.zero_point))  # type: ignore[union-attr]
        tensors["y"] = y
    if op in _ATTRIBUTES:
        attributes = _ATTRIBUTES[op](rng)
    elif op not in _DRAWN:
        attributes = {name: _uniform(rng, 0.25, 2) for name in FUNCTIONS[op].attributes}
    if op in _NONNEGATIVE:
        x = tensors["x"]
        low = np.array([np.iinfo(x.dtype).min])
        tensors["x"] = replace(x, quantization=Quantization(x.quantization.scale, low))  # type: ignore[union-attr]
    if op == "dense":
        x = tensors["x"]
        flat = (x.shape[0], int(np.prod(x.shape[1:])))
        tensors["x"] = Tensor("x", x.shape if len(x.shape) == 2 else flat, x.dtype, x.quantization)
    if op in ("concat", "maximum", "minimum"):  # inputs of scales of their own
        for name in node.inputs[1:]:
            t = tensors[name]
            scale = t.quantization.scale * np.float32(rng.uniform(0.5, 2))  # type: ignore[union-attr]
            quantization = Quantization(scale, t.quantization.zero_point)  # type: ignore[union-attr]
            tensors[name] = replace(t, quantization=quantization)
    if op == "prelu":  # slopes are real
        channels, low = tensors["x"].shape[3], rng.choice([-0.5, 0.0])
        slopes = rng.uniform(low, low + 1, (1, 1, channels)).astype(np.float32)
        slopes[:, :, rng.integers(0, channels)] = 0
        tensors["slope"] = Tensor("slope", slopes.shape, "float32", data=slopes)
    changed = Node("node", op, node.inputs, node.outputs, attributes)
    if op == "dense" and len(node.inputs) > 2:
        del tensors[node.inputs[2]]
        changed = Node("node", op, node.inputs[:2], node.outputs, attributes)
    inputs = tuple(name for name in graph.inputs if tensors[name].data is None)
    return Graph(f"{op}-{seed}", (changed,), tensors, inputs, graph.outputs, "onnx")


def _batch_norm(seed: int) -> Case:
    drawn = draw_case("pad", seed)
    rng = np.random.default_rng([77, seed])
    x = drawn.graph.tensors["x"]
    channels = x.shape[3]
    parameters = {
        "gamma": rng.uniform(-2, 2, channels),
        "beta": rng.uniform(-3, 3, channels),
        "mean": rng.uniform(-2, 2, channels),
        "variance": rng.uniform(0.05, 4, channels),
    }
    scale = np.array([np.float32(rng.uniform(0.02, 0.2))])
    y = Tensor("y", x.shape, x.dtype, Quantization(scale, x.quantization.zero_point))  # type: ignore[union-attr]
    tensors = {"x": x, "y": y}
    for name, value in parameters.items():
        tensors[name] = Tensor(name, value.shape, "float32", data=value.astype(np.float32))
    node = Node("node", "batch_norm", ("x", *parameters), ("y",), {"epsilon": 1e-5})
    graph = Graph(f"batch_norm-{seed}", (node,), tensors, ("x",), ("y",), "onnx")
    return Case(graph.name, graph, b"", drawn.inputs)


@dataclass
class _Writer:
    graph: Graph

    def write(self) -> bytes:
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Any] = []
        (node,) = self.graph.nodes
        getattr(self, f"_{node.op}", self._between_floats)(node)
        graph = helper.make_graph(
            self.nodes,
            "case",
            [self.value_info(name) for name in self.graph.inputs],
            [self.value_info("y")],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        return model.SerializeToString()

    def value_info(self, name: str):
        tensor = self.graph.tensors[name]
        shape = tensor.shape
        if len(shape) == 4:
            shape = (shape[0], shape[3], shape[1], shape[2])
        return helper.make_tensor_value_info(name, _TYPES[tensor.dtype], shape)

    def parameters(self, name: str) -> list[str]:
        """Declare scale and zero point of a tensor; return their names."""
        tensor = self.graph.tensors[name]
        q = tensor.quantization
        assert q is not None
        scale, zero = q.scale.astype(np.float32), q.zero_point.astype(tensor.dtype)
        if q.axis is None:
            scale, zero = scale.reshape(()), zero.reshape(())
        self.constants |= {f"{name}_scale": scale, f"{name}_zero": zero}
        return [f"{name}_scale", f"{name}_zero"]

    def add(self, op: str, inputs: list[str], output: str = "y", *, contrib=False, **attributes):
        domain = "com.microsoft" if contrib else ""
        self.nodes.append(helper.make_node(op, inputs, [output], domain=domain, **attributes))

    def operand(self, name: str) -> list[str]:
        tensor = self.graph.tensors[name]
        if tensor.data is not None:
            self.constants[name] = _to_file(tensor.data)
        return [name, *self.parameters(name)]

    def window(self, node: Node) -> dict[str, list[int]]:
        return {"strides": list(node["stride"]), "pads": list(node["padding"])}

    def convolution(self, node: Node, kernel: np.ndarray, group: int) -> None:
        self.constants["w"] = np.ascontiguousarray(kernel)
        inputs = ["x", *self.parameters("x"), "w", *self.parameters("w"), *self.parameters("y")]
        if len(node.inputs) > 2:
            self.constants["b"] = self.graph.tensors["b"].data  # type: ignore[assignment]
            inputs.append("b")
        dilations = list(node["dilation"])
        self.add("QLinearConv", inputs, group=group, dilations=dilations, **self.window(node))

    def _conv(self, node: Node) -> None:
        weight = self.graph.tensors["w"].data
        assert weight is not None
        self.convolution(node, weight.transpose(0, 3, 1, 2), 1)

    def _depthwise(self, node: Node) -> None:
        weight = self.graph.tensors["w"].data
        assert weight is not None
        channels = self.graph.tensors["x"].shape[3]
        self.convolution(node, weight.transpose(2, 0, 1)[:, np.newaxis], channels)

    def _dense(self, node: Node) -> None:
        weight = self.graph.tensors["w"].data
        assert weight is not None
        self.constants["w"] = np.ascontiguousarray(weight.T)
        inputs = ["x", *self.parameters("x"), "w", *self.parameters("w"), *self.parameters("y")]
        self.add("QLinearMatMul", inputs)

    def _mul(self, node: Node) -> None:
        operands = [name for side in node.inputs for name in self.operand(side)]
        self.add("QLinearMul", [*operands, *self.parameters("y")], contrib=True)

    def _max_pool(self, node: Node) -> None:
        self.add("MaxPool", ["x"], kernel_shape=list(node["window"]), **self.window(node))

    def _mean(self, node: Node) -> None:
        inputs = ["x", *self.parameters("x"), *self.parameters("y")]
        self.add("QLinearGlobalAveragePool", inputs, contrib=True, channels_last=0)

    def _pad(self, node: Node) -> None:
        top, left, bottom, right = node["padding"]
        self.constants["pads"] = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
        value = np.array(node["value"], self.graph.tensors["x"].dtype)
        self.constants["value"] = value
        self.add("Pad", ["x", "pads", "value"])

    def _concat(self, node: Node) -> None:
        inputs = self.parameters("y")
        for name in node.inputs:
            inputs += [name, *self.parameters(name)]
        axis = {1: 2, 2: 3, 3: 1}[node["axis"]]
        self.add("QLinearConcat", inputs, contrib=True, axis=axis)

    def _sigmoid(self, node: Node) -> None:
        inputs = ["x", *self.parameters("x"), *self.parameters("y")]
        self.add("QLinearSigmoid", inputs, contrib=True)

    def _batch_norm(self, node: Node) -> None:
        for name in node.inputs[1:]:
            self.constants[name] = self.graph.tensors[name].data  # type: ignore[assignment]
        self.add("DequantizeLinear", ["x", *self.parameters("x")], "real")
        inputs = ["real", *node.inputs[1:]]
        self.add("BatchNormalization", inputs, "result", epsilon=node["epsilon"])
        self.add("QuantizeLinear", ["result", *self.parameters("y")])

    def _maximum(self, node: Node) -> None:
        for name in node.inputs:
            self.add("DequantizeLinear", self.operand(name), f"{name}_real")
        self.add(_FLOAT[node.op], [f"{name}_real" for name in node.inputs], "result")
        self.add("QuantizeLinear", ["result", *self.parameters("y")])

    _minimum = _maximum

    def _power(self, node: Node) -> None:
        self.constants["exponent"] = np.array(node.attributes.get("exponent", 2), np.float32)
        self.add("DequantizeLinear", ["x", *self.parameters("x")], "real")
        self.add("Pow", ["real", "exponent"], "result")
        self.add("QuantizeLinear", ["result", *self.parameters("y")])

    _square = _power

    def _reduce_max(self, node: Node) -> None:
        axes = [{1: 2, 2: 3, 3: 1}[axis] for axis in node["axes"]]
        self.constants["axes"] = np.array(axes, np.int64)
        self.add("DequantizeLinear", ["x", *self.parameters("x")], "real")
        self.add(_FLOAT[node.op], ["real", "axes"], "result", keepdims=1)
        self.add("QuantizeLinear", ["result", *self.parameters("y")])

    _reduce_min = _reduce_max

    def _prelu(self, node: Node) -> None:
        slopes = self.graph.tensors["slope"].data
        assert slopes is not None
        self.constants["slope"] = np.ascontiguousarray(slopes.transpose(2, 0, 1))
        self.add("DequantizeLinear", ["x", *self.parameters("x")], "real")
        self.add("PRelu", ["real", "slope"], "result")
        self.add("QuantizeLinear", ["result", *self.parameters("y")])

    def _between_floats(self, node: Node) -> None:
        self.add("DequantizeLinear", ["x", *self.parameters("x")], "real")
        result = "result"
        if node.op == "requantize":
            result = "real"
        elif node.op in ("clip", "relu6"):
            low, high = node.attributes.get("low", 0.0), node.attributes.get("high", 6.0)
            self.constants |= {"low": np.float32(low), "high": np.float32(high)}  # type: ignore[dict-item]
            self.constants = {k: np.asarray(v) for k, v in self.constants.items()}
            self.add("Clip", ["real", "low", "high"], result)
        else:
            given = node.attributes.items() if node.op != "gelu" else ()
            attributes = {name: value for name, value in given if isinstance(value, float)}
            self.add(_FLOAT[node.op], ["real"], result, **attributes)
        self.add("QuantizeLinear", [result, *self.parameters("y")])


def _to_file(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value.transpose(0, 3, 1, 2)) if value.ndim == 4 else value
