"""Constants of an ONNX graph that is changed in place, as float32."""

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import numpy_helper

__all__ = ["add_constant", "set_constant"]


def add_constant(graph: onnx.GraphProto, name: str, value: ArrayLike) -> str:
    """Add a constant; return its name."""
    graph.initializer.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
    return name


def set_constant(graph: onnx.GraphProto, name: str, value: ArrayLike) -> None:
    """Give a constant another value."""
    tensor = next(each for each in graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(value, np.float32), name))
