"""Graphs as JSON and arrays, for files of compiled networks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, State, Tensor

__all__ = ["graph_from_json", "graph_to_json"]

_ARRAY = "array"


def graph_to_json(graph: Graph) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a graph as plain values that JSON can hold, and the arrays that it refers to."""
    arrays: dict[str, np.ndarray] = {}

    def keep(array: np.ndarray) -> dict[str, str]:
        name = str(len(arrays))
        arrays[name] = np.asarray(array)
        return {_ARRAY: name}

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return keep(value)
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, tuple | list):
            return [plain(item) for item in value]
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        return value

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

    Raises
    ------
    LookupError, TypeError, ValueError
        If something is missing, or not what it must be.
    """

    def value(plain: Any) -> Any:
        if isinstance(plain, dict):
            return arrays[plain[_ARRAY]]
        return tuple(value(item) for item in plain) if isinstance(plain, list) else plain

    tensors = {}
    for tensor in metadata["tensors"]:
        quantization = None
        if tensor["quantization"] is not None:
            scale, zero_point, axis = tensor["quantization"]
            quantization = Quantization(
                np.array(scale, np.float32), np.array(zero_point, np.int64), axis
            )
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
