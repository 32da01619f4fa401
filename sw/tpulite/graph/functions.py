"""Functions of one number: what files call them, and what they are in float32.

The formulas go step by step as the libraries' C++ writes them. Exponentials and the like are
computed in float64 and rounded: a float32 library gives the same but for the last bits of some.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_F = np.float32

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


@dataclass(frozen=True)
class Function:
    """A function of one number."""

    #: Takes an array of float32, and its attributes by name.
    formula: Callable[..., Floats]
    onnx: str = ""  #: ONNX's operator with these attributes; empty if there is none.
    #: Attributes, and what each is where a file does not say so.
    attributes: Mapping[str, float] = field(default_factory=dict)
    exact: bool = False  #: Whether every library has the same bits, whatever it runs on.


def wide(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> Floats:
    """Compute in float64, and round once."""
    with np.errstate(all="ignore"):
        return function(x.astype(np.float64)).astype(np.float32)


def _wide(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Floats], Floats]:
    return lambda x: wide(function, x)


def _sigmoid(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return _F(1) / (_F(1) + wide(np.exp, -x))


def _gelu(x: Floats, approximate: float) -> Floats:
    if not approximate:
        return (_F(0.5) * x * wide(_erfc, x * _F(-math.sqrt(0.5)))).astype(np.float32)
    inner = _F(math.sqrt(2 / math.pi)) * (x + _F(0.044715) * x * x * x)
    return (_F(0.5) * x * (_F(1) + wide(np.tanh, inner))).astype(np.float32)


def _selu(x: Floats, alpha: float, gamma: float) -> Floats:
    below = alpha * wide(np.expm1, np.minimum(x, _F(0)))
    return (gamma * np.where(x > 0, x, below)).astype(np.float32)


def _power(x: Floats, exponent: float) -> Floats:
    if exponent == 3:
        return x * x * x
    return wide(lambda each: np.power(each, float(exponent)), x)


def _shrink(x: Floats, lambd: float, bias: float) -> Floats:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, _F(0)))


FUNCTIONS: Mapping[str, Function] = {
    "abs": Function(np.abs, "Abs", exact=True),
    "ceil": Function(np.ceil, "Ceil", exact=True),
    "clip": Function(
        lambda x, low, high: np.clip(x, low, high),
        attributes={"low": -math.inf, "high": math.inf},
        exact=True,
    ),
    "cos": Function(_wide(np.cos), "Cos"),
    "elu": Function(
        lambda x, alpha: np.where(x >= 0, x, alpha * wide(np.expm1, x)), "Elu", {"alpha": 1.0}
    ),
    "erf": Function(_wide(_erf), "Erf"),
    "exp": Function(_wide(np.exp), "Exp"),
    "floor": Function(np.floor, "Floor", exact=True),
    "gelu": Function(_gelu, attributes={"approximate": 0}),
    "hard_sigmoid": Function(
        lambda x, alpha, beta: np.clip(alpha * x + beta, _F(0), _F(1)),
        "HardSigmoid",
        {"alpha": 0.2, "beta": 0.5},
    ),
    "hard_swish": Function(
        lambda x: np.clip(x * _F(1 / 6) + _F(0.5), _F(0), _F(1)) * x, "HardSwish", exact=True
    ),
    "leaky_relu": Function(
        lambda x, alpha: np.where(x >= 0, x, x * alpha), "LeakyRelu", {"alpha": 0.01}, exact=True
    ),
    "log": Function(_wide(np.log), "Log"),
    "mish": Function(_wide(lambda x: x * np.tanh(np.logaddexp(x, 0))), "Mish"),
    "neg": Function(np.negative, "Neg", exact=True),
    "reciprocal": Function(_wide(lambda x: 1 / x), "Reciprocal"),
    "relu": Function(lambda x: np.maximum(x, _F(0)), "Relu", exact=True),
    "relu6": Function(lambda x: np.clip(x, _F(0), _F(6)), exact=True),
    "relu_n1_1": Function(lambda x: np.clip(x, _F(-1), _F(1)), exact=True),
    "round": Function(np.rint, "Round", exact=True),
    "selu": Function(
        _selu, "Selu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
    ),
    "sigmoid": Function(_sigmoid, "Sigmoid"),
    "sign": Function(np.sign, "Sign", exact=True),
    "sin": Function(_wide(np.sin), "Sin"),
    "softplus": Function(_wide(lambda x: np.logaddexp(x, 0)), "Softplus"),
    "softsign": Function(lambda x: x / (_F(1) + np.abs(x)), "Softsign", exact=True),
    "power": Function(_power, attributes={"exponent": 3.0}),
    "square": Function(np.square, exact=True),
    "sqrt": Function(_wide(np.sqrt), "Sqrt"),
    "tanh": Function(_wide(np.tanh), "Tanh"),
    # The newer ones come last: tests draw all in this order.
    "celu": Function(
        lambda x, alpha: np.where(x > 0, x, alpha * wide(np.expm1, x / alpha)),
        "Celu",
        {"alpha": 1.0},
    ),
    "thresholded_relu": Function(
        lambda x, alpha: np.where(x > alpha, x, _F(0)),
        "ThresholdedRelu",
        {"alpha": 1.0},
        exact=True,
    ),
    "shrink": Function(_shrink, "Shrink", {"lambd": 0.5, "bias": 0.0}, exact=True),
    "atan": Function(_wide(np.arctan), "Atan"),
    "tan": Function(_wide(np.tan), "Tan"),
    "sinh": Function(_wide(np.sinh), "Sinh"),
    "cosh": Function(_wide(np.cosh), "Cosh"),
    "asinh": Function(_wide(np.arcsinh), "Asinh"),
}
"""Functions that ONNX files have, and some that only LiteRT has too.

Those of TFLite alone are in :mod:`tpulite.quant.exactness.functions`.
"""
