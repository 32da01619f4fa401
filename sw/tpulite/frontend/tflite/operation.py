"""What operators of TFLite files become, and what their conversions share."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tflite

from tpulite.graph.graph import Tensor

Inputs = tuple[Tensor | None, ...]
"""Tensors of an operator; a missing optional input is None."""


class Operation(NamedTuple):
    """A node without names: operator, which of the file's inputs it has, and attributes."""

    op: str
    inputs: tuple[int, ...]
    attributes: dict[str, Any]


class UnsupportedFormError(Exception):
    """A form of a known operator that graphs cannot express; the message says which."""


def fused_activation(options: Mapping[str, Any]) -> str:
    """Return the activation that an operator applies to its result."""
    code = options.get("FusedActivationFunction", 0)
    if code not in _ACTIVATIONS:
        raise UnsupportedFormError(f"unknown fused activation {code}")
    return _ACTIVATIONS[code]


def constant_integers(tensor: Tensor | None, what: str) -> np.ndarray:
    """Return the value of an input that says how to compute; ``what`` names it in messages."""
    assert tensor is not None
    if tensor.data is None:
        raise UnsupportedFormError(f"its {what} are not constant")
    if tensor.dtype not in ("int32", "int64"):
        raise ValueError(f"{what} must be integers, not {tensor.dtype}")
    return tensor.data


def present(inputs: Inputs) -> tuple[int, ...]:
    """Return input, weights, and bias if there is one."""
    return (0, 1, 2) if len(inputs) > 2 and inputs[2] is not None else (0, 1)


_ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: "none",
    tflite.ActivationFunctionType.RELU: "relu",
    tflite.ActivationFunctionType.RELU_N1_TO_1: "relu_n1_1",
    tflite.ActivationFunctionType.RELU6: "relu6",
}
