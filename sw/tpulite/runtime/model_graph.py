"""Graphs as JSON and arrays, for files of compiled networks."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, State, Tensor

_ARRAY, _BYTES, _LIST, _MAP, _SCALAR = "array", "bytes", "list", "map", "scalar"
"""Tags of what JSON has no form for: an object of one of them stands for such a value."""


def graph_to_json(graph: Graph) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a graph as plain values that JSON can hold, and the arrays that it refers to.

    Attributes come back with the types that they have here, whatever they are nested in. TypeError
    if an attribute has a type that the file has no form for.
    """
    arrays: dict[str, np.ndarray] = {}

    def keep(array: np.ndarray) -> dict[str, str]:
        name = str(len(arrays))
        arrays[name] = np.asarray(array)
        return {_ARRAY: name}

    def plain(value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) is tuple:
            return [plain(item) for item in value]
        if isinstance(value, np.ndarray):
            return keep(value)
        if isinstance(value, np.generic):
            return {_SCALAR: [value.dtype.str, value.item()]}
        if isinstance(value, bytes):
            return {_BYTES: value.hex()}
        if isinstance(value, list):
            return {_LIST: [plain(item) for item in value]}
        if isinstance(value, Mapping):
            return {_MAP: [[plain(key), plain(item)] for key, item in value.items()]}
        raise TypeError(f"an attribute of a node is a {type(value).__name__}: {value!r}")

    tensors = []
    for tensor in graph.tensors.values():
        q = tensor.quantization
        tensors.append(
            {
                "name": tensor.name,
                "shape": list(tensor.shape),
                "dtype": tensor.dtype,
                "quantization": None
                if q is None
                else [q.scale.tolist(), q.zero_point.tolist(), q.axis],
                "data": None if tensor.data is None else keep(tensor.data),
            }
        )
    nodes = [
        {
            "name": node.name,
            "op": node.op,
            "inputs": list(node.inputs),
            "outputs": list(node.outputs),
            "attributes": {name: plain(value) for name, value in node.attributes.items()},
            "source": node.source,
        }
        for node in graph.nodes
    ]
    metadata = {
        "name": graph.name,
        "format": graph.format,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "states": [
            [state.name, state.input, state.output, keep(state.initial)] for state in graph.states
        ],
        "classes": graph.classes,
        "tensors": tensors,
        "nodes": nodes,
    }
    return metadata, arrays


def graph_from_json(metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Graph:
    """Return the graph; the inverse of :func:`graph_to_json`.

    LookupError, TypeError or ValueError if something is missing, or not what it must be.
    """

    def value(plain: Any) -> Any:
        if isinstance(plain, list):
            return tuple(value(item) for item in plain)
        if not isinstance(plain, dict):
            return plain
        ((tag, content),) = plain.items()
        return readers[tag](content)

    def scalar(content: Any) -> Any:
        dtype, item = content
        return np.dtype(dtype).type(item)

    readers: dict[str, Callable[[Any], Any]] = {
        _ARRAY: lambda name: arrays[name],
        _BYTES: bytes.fromhex,
        _LIST: lambda items: [value(item) for item in items],
        _MAP: lambda items: {value(key): value(item) for key, item in items},
        _SCALAR: scalar,
    }

    tensors = {}
    for tensor in metadata["tensors"]:
        quantization = None
        if tensor["quantization"] is not None:
            scale, zero_point, axis = tensor["quantization"]
            scales, points = np.array(scale, np.float32), np.array(zero_point, np.int64)
            if scales.ndim != 1 or not scales.size or points.shape != scales.shape:
                raise ValueError(f"tensor {tensor['name']!r} has the scales {scale}")
            quantization = Quantization(scales, points, axis)
        shape = tuple(tensor["shape"])
        if not all(type(extent) is int and extent >= 0 for extent in shape):
            raise ValueError(f"tensor {tensor['name']!r} has the shape {list(shape)}")
        data = None if tensor["data"] is None else value(tensor["data"])
        np.dtype(tensor["dtype"])  # whether there is such a type
        tensors[tensor["name"]] = Tensor(tensor["name"], shape, tensor["dtype"], quantization, data)
    nodes = tuple(
        Node(
            node["name"],
            node["op"],
            tuple(node["inputs"]),
            tuple(node["outputs"]),
            {name: value(plain) for name, plain in node["attributes"].items()},
            _text(node["source"]),
        )
        for node in metadata["nodes"]
    )
    return Graph(
        metadata["name"],
        nodes,
        tensors,
        tuple(metadata["inputs"]),
        tuple(metadata["outputs"]),
        metadata["format"],
        states=tuple(
            State(name, before, after, value(initial))
            for name, before, after, initial in metadata["states"]
        ),
        classes=metadata.get("classes"),  # files of earlier versions say nothing of them
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"an operator of the file has the name {value!r}")
    return value
