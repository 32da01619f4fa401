"""Constants of a float network, and where the axis of channels lies before operators that move."""

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike
from onnx import numpy_helper

from tpulite.frontend.onnx.read.attributes import attributes_of, names_read
from tpulite.quant.floats.graph import Links


class Axes:
    """Shapes of a network, and where its moves take an axis.

    Parameters
    ----------
    links : Links
        Its edges and constants.
    """

    def __init__(self, model: onnx.ModelProto, links: Links) -> None:
        inferred = onnx.shape_inference.infer_shapes(model).graph
        values = (*inferred.value_info, *inferred.input, *inferred.output)
        self._links = links
        self._kinds = {value.name: value.type.tensor_type.elem_type for value in values}
        self._shapes = {
            value.name: [extent.dim_value for extent in value.type.tensor_type.shape.dim]
            for value in values
            if value.type.tensor_type.HasField("shape")
        }

    def shape(self, name: str) -> list[int]:
        """Return the extents of a tensor; none if they are not known."""
        return self._shapes.get(name, [])

    def rank(self, name: str) -> int:
        """Return how many axes a tensor has; 0 if that is not known."""
        return len(self._shapes.get(name, ()))

    def is_boolean(self, name: str) -> bool:
        """Tell whether a tensor is known to hold truth values."""
        return self._kinds.get(name) == onnx.TensorProto.BOOL

    def channels(self, product: onnx.NodeProto) -> int | None:
        """Return along which axis of its input a product adds; None if that is not known."""
        rank = self.rank(product.input[0])
        if not rank:
            return None
        return 1 if product.op_type == "Conv" else rank - 1

    def before(self, node: onnx.NodeProto, axis: int) -> int | None:
        """Return which axis of an operator's input becomes one of its result; None if none does."""
        shape, made = (self._shapes.get(x) for x in (node.input[0], node.output[0]))
        if not shape or not made or len(node.output) != 1:
            return None
        match node.op_type:
            case "Identity":
                return axis
            case "Transpose":
                return int(attributes_of(node).get("perm", range(len(shape))[::-1])[axis])
            case "Slice":
                return axis if shape[axis] == made[axis] > 0 else None
            case "Unsqueeze":
                new = self._axes(node, len(made))
                kept = [each for each in range(len(made)) if each not in new]
                return kept.index(axis) if new and axis in kept else None
            case "Squeeze":
                gone = self._axes(node, len(shape))
                kept = [each for each in range(len(shape)) if each not in gone]
                return kept[axis] if gone else None
            case "Reshape":
                last = axis == len(made) - 1 and shape[-1] == made[-1] > 0
                return len(shape) - 1 if last else None
            case _:
                return None

    def _axes(self, node: onnx.NodeProto, rank: int) -> list[int]:
        """Return the axes that an operator adds or takes away; none if they are not known."""
        found = attributes_of(node).get("axes", ())
        if len(node.input) > 1 and node.input[1] in self._links.constants:
            found = self._links.constants[node.input[1]].ravel().tolist()
        return [int(each) % rank for each in found]


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
