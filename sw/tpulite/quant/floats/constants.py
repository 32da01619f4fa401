"""Constants of an ONNX graph that is changed in place."""

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike
from onnx import numpy_helper

from tpulite.frontend.onnx.read.attributes import names_read


def add_constant(
    graph: onnx.GraphProto, name: str, value: ArrayLike, dtype: DTypeLike | None = np.float32
) -> str:
    """Add a constant, without ``dtype`` of the value's own; return its name.

    The name is longer than the wanted one if another constant has that.
    """
    taken = {tensor.name for tensor in graph.initializer}
    while name in taken:
        name += "_"
    array = np.asarray(value, dtype, order="C")
    graph.initializer.append(numpy_helper.from_array(array, name))
    return name


def set_constant(graph: onnx.GraphProto, name: str, value: ArrayLike) -> None:
    """Give a constant another value, as float32."""
    tensor = next(each for each in graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(value, np.float32), name))


def drop_constants(graph: onnx.GraphProto) -> None:
    """Take out constants that no operator reads, by those of bodies too, and that are no output."""
    read = {value.name for value in graph.output}.union(*map(names_read, graph.node))
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
