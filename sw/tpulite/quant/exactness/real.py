"""Functions of real numbers in float32, step by step as the libraries' C++ writes them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.quant.tensors import UnsupportedError

Floats = NDArray[np.float32]
_F = np.float32

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def real_function(op: str, attributes: Mapping[str, Any]) -> Callable[[Floats], Floats]:
    """Return an operator as a function of float32 arrays.

    Exponentials and the like are computed in float64 and rounded, which is what a float32 library
    gives but for the last bit of some; no table of 256 results has shown the difference.

    Raises
    ------
    UnsupportedError
        If there is no such operator.
    """
    if op == "gelu":
        return _gelu_tanh if attributes.get("approximate") else _gelu
    if op == "leaky_relu":
        alpha = _F(attributes["alpha"])
        return lambda x: np.where(x >= 0, x, x * alpha)
    if op == "elu":
        alpha = _F(attributes.get("alpha", 1.0))
        return lambda x: np.where(x >= 0, x, alpha * _wide(np.expm1, x))
    if op == "clip":
        low, high = _F(attributes["low"]), _F(attributes["high"])
        return lambda x: np.clip(x, low, high)
    if op == "hard_sigmoid":
        slope, offset = _F(attributes["alpha"]), _F(attributes["beta"])
        return lambda x: np.clip(slope * x + offset, _F(0), _F(1))
    if op == "selu":
        alpha, gamma = _F(attributes["alpha"]), _F(attributes["gamma"])
        return lambda x: gamma * np.where(x > 0, x, alpha * _wide(np.expm1, np.minimum(x, 0)))
    if op not in _FUNCTIONS:
        raise UnsupportedError(f"{op} is not verified against any library")
    return _FUNCTIONS[op]


def _wide(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> Floats:
    with np.errstate(all="ignore"):
        return function(x.astype(np.float64)).astype(np.float32)


def _sigmoid(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return _F(1) / (_F(1) + _wide(np.exp, -x))


def sigmoid_once_rounded(x: Floats) -> Floats:
    """Return the sigmoid rounded to float32 at the end alone, as XNNPACK's is."""
    return _wide(lambda wide: 1 / (1 + np.exp(-wide)), x)


def _gelu(x: Floats) -> Floats:
    return (_F(0.5) * x * _wide(_erfc, x * _F(-math.sqrt(0.5)))).astype(np.float32)


def _gelu_tanh(x: Floats) -> Floats:
    inner = _F(math.sqrt(2 / math.pi)) * (x + _F(0.044715) * x * x * x)
    return (_F(0.5) * x * (_F(1) + _wide(np.tanh, inner))).astype(np.float32)


def _softplus(x: Floats) -> Floats:
    return _wide(lambda wide: np.logaddexp(wide, 0), x)


_FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "cos": lambda x: _wide(np.cos, x),
    "erf": lambda x: _wide(_erf, x),
    "exp": lambda x: _wide(np.exp, x),
    "floor": np.floor,
    "hard_swish": lambda x: np.clip(x * _F(1 / 6) + _F(0.5), _F(0), _F(1)) * x,
    "log": lambda x: _wide(np.log, x),
    "mish": lambda x: _wide(lambda wide: wide * np.tanh(np.logaddexp(wide, 0)), x),
    "neg": np.negative,
    "reciprocal": lambda x: _wide(lambda wide: 1 / wide, x),
    "relu": lambda x: np.maximum(x, _F(0)),
    "relu6": lambda x: np.clip(x, _F(0), _F(6)),
    "relu_n1_1": lambda x: np.clip(x, _F(-1), _F(1)),
    "round": np.rint,
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "sin": lambda x: _wide(np.sin, x),
    "softplus": _softplus,
    "softsign": lambda x: x / (_F(1) + np.abs(x)),
    "square": np.square,
    "sqrt": lambda x: _wide(np.sqrt, x),
    "tanh": lambda x: _wide(np.tanh, x),
}


def logarithm(x: Floats) -> Floats:
    """Return logarithms as LiteRT does: far below every range for what has none."""
    return np.where(x > 0, _wide(np.log, np.maximum(x, _F(1e-30))), _F(-1e20))
