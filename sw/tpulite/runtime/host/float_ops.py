"""Operators in floating point, for what the machine cannot do: correct, but with nobody's bits.

Every function takes its operands as float64 arrays, images as [batch, height, width, channels],
and returns a float64 array.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tpulite.graph.data_movement import pad_image
from tpulite.graph.graph import Node

__all__ = ["FLOAT_RULES", "activate", "windows"]

Values = list[np.ndarray]
Rule = Callable[[Node, Values], np.ndarray]


def activate(node: Node, values: np.ndarray) -> np.ndarray:
    """Apply the activation that is fused to a node."""
    name = node.attributes.get("activation", "none")
    return values if name == "none" else _CLIPS[name](values)


def windows(
    x: np.ndarray,
    window: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> np.ndarray:
    """Return views [batch, y, x, channels, window y, window x] of padded images."""
    reach = [d * (k - 1) + 1 for k, d in zip(window, dilation, strict=True)]
    views = sliding_window_view(x, reach, axis=(1, 2))
    return views[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]


def _conv(node: Node, values: Values) -> np.ndarray:
    x, weight, *bias = values
    padded = pad_image(x, node["padding"], 0)
    views = windows(padded, weight.shape[1:3], node["stride"], node["dilation"])
    return np.einsum("nyxcij,oijc->nyxo", views, weight, optimize=True) + sum(bias)


def _depthwise(node: Node, values: Values) -> np.ndarray:
    x, weight, *bias = values
    padded = pad_image(np.repeat(x, node["multiplier"], axis=3), node["padding"], 0)
    views = windows(padded, weight.shape[:2], node["stride"], node["dilation"])
    return np.einsum("nyxcij,ijc->nyxc", views, weight, optimize=True) + sum(bias)


def _dense(node: Node, values: Values) -> np.ndarray:
    x, weight, *bias = values
    return x.reshape(-1, weight.shape[1]) @ weight.T + sum(bias)


def _max_pool(node: Node, values: Values) -> np.ndarray:
    padded = pad_image(values[0], node["padding"], -np.inf)
    return windows(padded, node["window"], node["stride"]).max(axis=(4, 5))


def _average_pool(node: Node, values: Values) -> np.ndarray:
    (x,) = values
    ones = np.ones_like(x)
    sums, counts = (
        windows(pad_image(part, node["padding"], fill), node["window"], node["stride"])
        for part, fill in ((x, 0.0), (ones, float(node["count_include_pad"])))
    )
    return sums.sum(axis=(4, 5)) / counts.sum(axis=(4, 5))


def _mean(node: Node, values: Values) -> np.ndarray:
    return values[0].mean(axis=tuple(node["axes"]), keepdims=node["keep_dims"])


def _batch_norm(node: Node, values: Values) -> np.ndarray:
    x, gamma, beta, mean, variance = values
    return (x - mean) / np.sqrt(variance + node["epsilon"]) * gamma + beta


def _softmax(node: Node, values: Values) -> np.ndarray:
    return np.exp(_log_softmax(node, values))


def _log_softmax(node: Node, values: Values) -> np.ndarray:
    axis = node.attributes.get("axis", -1)
    scaled = values[0] * node.attributes.get("beta", 1.0)
    centered = scaled - scaled.max(axis=axis, keepdims=True)
    return centered - np.log(np.exp(centered).sum(axis=axis, keepdims=True))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _gelu(node: Node, values: Values) -> np.ndarray:
    (x,) = values
    if node["approximate"]:
        return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return x * (1 + _erf(x / math.sqrt(2))) / 2


def _one(function: Callable[[np.ndarray], np.ndarray]) -> Rule:
    """Make a rule of a function of one number."""
    return lambda node, values: function(values[0])


def _two(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Rule:
    """Make a rule of a function of two numbers."""
    return lambda node, values: function(values[0], values[1])


_erf = np.vectorize(math.erf, otypes=[np.float64])

_CLIPS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "relu_n1_1": lambda x: np.clip(x, -1, 1),
}

_FUNCTIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    **_CLIPS,
    "abs": np.abs,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": _erf,
    "exp": np.exp,
    "floor": np.floor,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "log": np.log,
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "neg": np.negative,
    "reciprocal": np.reciprocal,
    "requantize": lambda x: x,
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "sin": np.sin,
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
}

FLOAT_RULES: Mapping[str, Rule] = {
    "add": _two(np.add),
    "average_pool": _average_pool,
    "batch_norm": _batch_norm,
    "clip": lambda node, values: np.clip(values[0], node["low"], node["high"]),
    "concat": lambda node, values: np.concatenate(values, axis=node["axis"]),
    "conv": _conv,
    "dense": _dense,
    "depthwise": _depthwise,
    "elu": lambda node, values: np.where(
        values[0] < 0, node["alpha"] * np.expm1(values[0]), values[0]
    ),
    "gelu": _gelu,
    "hard_sigmoid": lambda node, values: np.clip(node["alpha"] * values[0] + node["beta"], 0, 1),
    "leaky_relu": lambda node, values: np.where(
        values[0] < 0, node["alpha"] * values[0], values[0]
    ),
    "log_softmax": _log_softmax,
    "max_pool": _max_pool,
    "maximum": _two(np.maximum),
    "mean": _mean,
    "minimum": _two(np.minimum),
    "mul": _two(np.multiply),
    "pow": _two(np.power),
    "prelu": lambda node, values: np.where(values[0] < 0, values[1] * values[0], values[0]),
    "selu": lambda node, values: (
        node["gamma"] * np.where(values[0] < 0, node["alpha"] * np.expm1(values[0]), values[0])
    ),
    "softmax": _softmax,
    "squared_difference": _two(lambda a, b: (a - b) ** 2),
    "sub": _two(np.subtract),
    **{name: _one(function) for name, function in _FUNCTIONS.items()},
}
"""How each operator computes; its fused activation is not included."""
