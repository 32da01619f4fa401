"""A small interpreter of graphs, for tests: every operator by its definition, no library's bits.

Sums are exact; what is quantized is rounded half to even, averages half away from zero.
"""

from collections.abc import Mapping

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor

__all__ = ["run"]


def run(graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a graph for given inputs."""
    values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    values |= feeds
    for node in graph.nodes:
        outputs = [graph.tensors[name] for name in node.outputs]
        inputs = [graph.tensors[name] for name in node.inputs if name]
        arrays = [values[name] for name in node.inputs if name]
        with np.errstate(invalid="ignore"):  # pads of -inf meet each other
            results = _OPERATORS[node.op](node, inputs, arrays, outputs)
        for tensor, result in zip(outputs, results, strict=True):
            assert result.shape == tensor.shape, (node.name, result.shape, tensor.shape)
            values[tensor.name] = result.astype(tensor.dtype)
    return {name: values[name] for name in graph.outputs}


def _steps(tensor: Tensor, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return elements less their zero point, and what one step of them is worth."""
    if tensor.quantization is None:
        return value.astype(np.float64), np.ones(1)
    scale, zero_point = tensor.quantization.scale, tensor.quantization.zero_point
    if tensor.quantization.axis is not None:
        shape = [-1 if i == tensor.quantization.axis else 1 for i in range(value.ndim)]
        zero_point = zero_point.reshape(shape)
    return value.astype(np.float64) - zero_point, scale.astype(np.float64)


def _real(tensor: Tensor, value: np.ndarray) -> np.ndarray:
    steps, scale = _steps(tensor, value)
    assert scale.size == 1
    return steps * scale


def _quantized(real: np.ndarray, tensor: Tensor) -> np.ndarray:
    q = tensor.quantization
    if q is None:
        return real
    limits = np.iinfo(tensor.dtype)
    return np.clip(np.rint(real / q.scale[0]) + q.zero_point[0], limits.min, limits.max)


def _activate(real: np.ndarray, activation: str) -> np.ndarray:
    low, high = {
        "none": (-np.inf, np.inf),
        "relu": (0, np.inf),
        "relu6": (0, 6),
        "relu_n1_1": (-1, 1),
    }[activation]
    return np.clip(real, low, high)


def _finish(node: Node, real: np.ndarray, y: Tensor) -> list[np.ndarray]:
    """Quantize, then clamp to the bounds as they are quantized, which is what hardware does."""
    value = _quantized(real, y)
    activation = node.attributes.get("activation", "none")
    if y.quantization is None:
        return [_activate(value, activation)]
    low, high = (_quantized(_activate(np.array(end), activation), y) for end in (-np.inf, np.inf))
    return [np.clip(value, low, high)]


def _windows(node: Node, x: np.ndarray, window, fill: float) -> np.ndarray:
    """Return [batch, y, x, channels, window y, window x] of a padded image."""
    top, left, bottom, right = node["padding"]
    dilation, stride = node.attributes.get("dilation", (1, 1)), node["stride"]
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, window, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2))
    return views[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]


def _products(node, inputs, arrays, y, equation, window):
    (x, x_scale), (w, w_scale) = (_steps(*pair) for pair in zip(inputs[:2], arrays, strict=False))
    if window:
        x = _windows(node, x, window, 0)
    group = node.attributes.get("group", 1)
    parts = zip(np.split(x, group, axis=3 if window else -1), np.split(w, group), strict=True)
    sums = np.concatenate([np.einsum(equation, *part) for part in parts], axis=-1)
    if len(inputs) > 2:
        sums = sums + arrays[2]
    return _finish(node, sums * x_scale * w_scale, y)


def _conv(node, inputs, arrays, outputs):
    window = inputs[1].shape[1:3]
    return _products(node, inputs, arrays, outputs[0], "byxcij,oijc->byxo", window)


def _depthwise(node, inputs, arrays, outputs):
    window, arrays = inputs[1].shape[:2], list(arrays)
    arrays[0] = np.repeat(arrays[0], node["multiplier"], axis=3)
    return _products(node, inputs, arrays, outputs[0], "byxcij,ijc->byxc", window)


def _dense(node, inputs, arrays, outputs):
    arrays = [arrays[0].reshape(-1, inputs[1].shape[1]), *arrays[1:]]
    (result,) = _products(node, inputs, arrays, outputs[0], "bk,ok->bo", None)
    return [result.reshape(outputs[0].shape)]


def _binary(function):
    def compute(node, inputs, arrays, outputs):
        a, b = (_real(*pair) for pair in zip(inputs, arrays, strict=True))
        return _finish(node, function(a, b), outputs[0])

    return compute


def _function(function):
    def compute(node, inputs, arrays, outputs):
        real = function(_real(inputs[0], arrays[0]))
        return [_quantized(real, outputs[0])]

    return compute


def _leaky_relu(node, inputs, arrays, outputs):
    x = _real(inputs[0], arrays[0])
    return [_quantized(np.where(x < 0, x * node["alpha"], x), outputs[0])]


def _max_pool(node, inputs, arrays, outputs):
    views = _windows(node, arrays[0].astype(np.float64), node["window"], -np.inf)
    return _finish(node, _real(outputs[0], views.max(axis=(4, 5))), outputs[0])


def _average_pool(node, inputs, arrays, outputs):
    assert not node["count_include_pad"]
    x = arrays[0].astype(np.float64)
    sums = _windows(node, x, node["window"], 0).sum(axis=(4, 5))
    average = sums / _windows(node, np.ones_like(x), node["window"], 0).sum(axis=(4, 5))
    if outputs[0].quantization is not None:
        average = np.trunc(average + np.copysign(0.5, average))
    return _finish(node, _real(outputs[0], average), outputs[0])


def _mean(node, inputs, arrays, outputs):
    real = _real(inputs[0], arrays[0]).mean(axis=node["axes"], keepdims=node["keep_dims"])
    return [_quantized(real, outputs[0])]


def _pad(node, inputs, arrays, outputs):
    top, left, bottom, right = node["padding"]
    amounts = ((0, 0), (top, bottom), (left, right), (0, 0))
    return [np.pad(arrays[0], amounts, constant_values=node["value"])]


def _batch_norm(node, inputs, arrays, outputs):
    x, gamma, beta, mean, variance = (a.astype(np.float64) for a in arrays)
    return [(x - mean) / np.sqrt(variance + node["epsilon"]) * gamma + beta]


_OPERATORS = {
    "conv": _conv,
    "depthwise": _depthwise,
    "dense": _dense,
    "add": _binary(np.add),
    "sub": _binary(np.subtract),
    "mul": _binary(np.multiply),
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "mean": _mean,
    "pad": _pad,
    "concat": lambda n, i, arrays, o: [np.concatenate(arrays, axis=n["axis"])],
    "reshape": lambda n, i, arrays, o: [arrays[0].reshape(n["shape"])],
    "transpose": lambda n, i, arrays, o: [arrays[0].transpose(n["perm"])],
    "identity": lambda n, i, arrays, o: [arrays[0]],
    "relu": _function(lambda x: _activate(x, "relu")),
    "relu6": _function(lambda x: _activate(x, "relu6")),
    "relu_n1_1": _function(lambda x: _activate(x, "relu_n1_1")),
    "clip": lambda n, i, a, o: [_quantized(np.clip(_real(i[0], a[0]), n["low"], n["high"]), o[0])],
    "sigmoid": _function(lambda x: 1 / (1 + np.exp(-x))),
    "tanh": _function(np.tanh),
    "hard_swish": _function(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "leaky_relu": _leaky_relu,
    "elu": _function(lambda x: np.where(x < 0, np.expm1(x), x)),
    "requantize": _function(lambda x: x),
    "quantize": _function(lambda x: x),
    "dequantize": _function(lambda x: x),
    "batch_norm": _batch_norm,
}
