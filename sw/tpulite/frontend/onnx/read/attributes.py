"""Attributes of ONNX operators, and tensors of the graphs that are attributes: branches, bodies."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return attributes as plain values: text decoded, sequences as tuples, graphs left out."""
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            values[attribute.name] = value.decode("utf-8", "replace")
        elif isinstance(value, TensorProto):
            values[attribute.name] = array(value)
        elif isinstance(value, int | float):
            values[attribute.name] = value
        elif isinstance(value, list | tuple) or hasattr(value, "__iter__"):
            items = [item.decode() if isinstance(item, bytes) else item for item in value]
            if all(isinstance(item, int | float | str) for item in items):
                values[attribute.name] = tuple(items)
    return values


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph, and the graphs in its nodes at any depth."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from graphs_of(inner)


def names_read(node: onnx.NodeProto) -> set[str]:
    """Return the tensors that a node reads, with all that are read in its graphs."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            names |= {value.name for value in graph.output}
            names = names.union(*map(names_read, graph.node))
    return names


def rename_tensors(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename tensors wherever a graph writes or reads them, the graphs in its nodes included."""
    for value in (*graph.value_info, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for ends in (node.input, node.output):
            for index, name in enumerate(ends):
                ends[index] = names.get(name, name)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                rename_tensors(inner, names)


def array(tensor: TensorProto) -> np.ndarray:
    """Return the value of a tensor.

    Raises
    ------
    ValueError
        If it has more or fewer bytes than its shape says.
    """
    try:
        return np.array(numpy_helper.to_array(tensor))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"Tensor {tensor.name!r} is damaged: {error}") from error


def static_shape(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Return the shape of a tensor if all of it is known."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    extents = list(kind.shape.dim)
    if any(not extent.HasField("dim_value") for extent in extents):
        return None
    return tuple(extent.dim_value for extent in extents)


def type_of(value: onnx.ValueInfoProto) -> tuple[str, tuple[int, ...] | None]:
    """Return dtype and shape; ``object`` and None for what is not a tensor."""
    try:
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
    except KeyError:
        return "object", None
    return dtype, static_shape(value)
