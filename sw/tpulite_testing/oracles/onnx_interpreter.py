"""A slow and plain interpreter of graphs, to see whether an import means what the file means.

It knows nothing of the machine: quantized operators compute with real numbers and round at the end.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor

__all__ = ["interpret"]

_LIMITS = {
    "none": (-np.inf, np.inf),
    "relu": (0, np.inf),
    "relu6": (0, 6),
    "relu_n1_1": (-1, 1),
}


def interpret(graph: Graph, *inputs: np.ndarray) -> list[np.ndarray]:
    """Run a graph on inputs in the order of ``graph.inputs``."""
    values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        real = [_real(graph.tensors[name], values[name]) for name in node.inputs if name]
        result = _OPERATORS[node.op](node, *real)
        if "activation" in node.attributes:
            result = np.clip(result, *_LIMITS[node["activation"]])
        tensor = graph.tensors[node.outputs[0]]
        assert result.shape == tensor.shape, (node, result.shape)
        values[tensor.name] = _stored(tensor, result)
    return [values[name] for name in graph.outputs]


def _real(tensor: Tensor, value: np.ndarray) -> np.ndarray:
    assert value.shape == tensor.shape, tensor.name
    value = value.astype(np.float64)
    if tensor.quantization is None or not tensor.dtype.startswith(("int", "uint")):
        return value
    shape = [1] * value.ndim
    if tensor.quantization.axis is not None:
        shape[tensor.quantization.axis] = -1
    quantization = tensor.quantization
    scale, point = quantization.scale.reshape(shape), quantization.zero_point.reshape(shape)
    return (value - point) * scale.astype(np.float64)


def _stored(tensor: Tensor, value: np.ndarray) -> np.ndarray:
    if tensor.dtype in ("int8", "uint8") and tensor.quantization is not None:
        limits = np.iinfo(tensor.dtype)
        value = np.rint(value / tensor.quantization.scale[0]) + tensor.quantization.zero_point[0]
        return np.clip(value, limits.min, limits.max).astype(tensor.dtype)
    return value.astype(tensor.dtype)


def _patches(node: Node, x: np.ndarray, window: tuple[int, int], fill: float):
    """Yield output positions with the part of the padded image below each."""
    top, left, bottom, right = node["padding"]
    dilation = node.attributes.get("dilation", (1, 1))
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    rows = range(0, x.shape[1] - reach[0] + 1, node["stride"][0])
    columns = range(0, x.shape[2] - reach[1] + 1, node["stride"][1])
    shape = (len(rows), len(columns))
    for (oy, y), (ox, c) in itertools.product(enumerate(rows), enumerate(columns)):
        patch = x[:, y : y + reach[0] : dilation[0], c : c + reach[1] : dilation[1]]
        yield shape, (oy, ox), patch


def _slide(node: Node, x: np.ndarray, window, channels: int, compute, fill: float = 0.0):
    result = None
    for shape, (oy, ox), patch in _patches(node, x, window, fill):
        if result is None:
            result = np.zeros((x.shape[0], *shape, channels))
        result[:, oy, ox] = compute(patch)
    assert result is not None, node
    return result


def _conv(node: Node, x, weight, bias=0.0):
    group = node.attributes.get("group", 1)
    kernels = np.split(weight, group)

    def compute(patch):
        pairs = zip(np.split(patch, group, axis=3), kernels, strict=True)
        sums = [np.tensordot(*pair, ([1, 2, 3], [1, 2, 3])) for pair in pairs]
        return np.concatenate(sums, axis=-1) + bias

    return _slide(node, x, weight.shape[1:3], weight.shape[0], compute)


def _depthwise(node: Node, x, weight, bias=0.0):
    def compute(patch):
        return (np.repeat(patch, node["multiplier"], axis=3) * weight).sum((1, 2)) + bias

    return _slide(node, x, weight.shape[:2], weight.shape[2], compute)


def _average_pool(node: Node, x):
    counted = np.ones_like(x)
    fill = 1.0 if node["count_include_pad"] else 0.0
    sums = _slide(node, x, node["window"], x.shape[3], lambda p: p.sum((1, 2)))
    return sums / _slide(node, counted, node["window"], x.shape[3], lambda p: p.sum((1, 2)), fill)


def _max_pool(node: Node, x):
    return _slide(node, x, node["window"], x.shape[3], lambda p: p.max((1, 2)), -np.inf)


def _dense(node: Node, x, weight, bias=0.0):
    return x @ weight.T + bias


def _batch_norm(node: Node, x, gamma, beta, mean, variance):
    return (x - mean) / np.sqrt(variance + node["epsilon"]) * gamma + beta


def _pad(node: Node, x):
    top, left, bottom, right = node["padding"]
    # The value is an integer of the tensor; the tests only pad with what means zero.
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))


_sigmoid = np.vectorize(lambda v: 1 / (1 + math.exp(-v)))

_OPERATORS: dict[str, Callable[..., np.ndarray]] = {
    "add": lambda n, a, b: a + b,
    "average_pool": _average_pool,
    "batch_norm": _batch_norm,
    "clip": lambda n, x: np.clip(x, n["low"], n["high"]),
    "concat": lambda n, *x: np.concatenate(x, axis=n["axis"]),
    "conv": _conv,
    "dense": _dense,
    "depthwise": _depthwise,
    "dequantize": lambda n, x: x,
    "hard_swish": lambda n, x: x * np.clip(x + 3, 0, 6) / 6,
    "leaky_relu": lambda n, x: np.where(x < 0, x * n["alpha"], x),
    "max_pool": _max_pool,
    "mean": lambda n, x: x.mean(n["axes"], keepdims=n["keep_dims"]),
    "mul": lambda n, a, b: a * b,
    "pad": _pad,
    "quantize": lambda n, x: x,
    "relu": lambda n, x: np.maximum(x, 0),
    "relu6": lambda n, x: np.clip(x, 0, 6),
    "requantize": lambda n, x: x,
    "reshape": lambda n, x: x.reshape(n["shape"]),
    "sigmoid": lambda n, x: _sigmoid(x),
    "softmax": lambda n, x: np.exp(x) / np.exp(x).sum(n["axis"], keepdims=True),
    "sub": lambda n, a, b: a - b,
    "tanh": lambda n, x: np.tanh(x),
    "transpose": lambda n, x: x.transpose(n["perm"]),
}
