"""Graphs for tests, written node by node."""

from typing import Any

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, Tensor

__all__ = ["GraphBuilder", "quantization"]


def quantization(scale: float = 0.5, zero_point: int = 0) -> Quantization:
    """Return a quantization with one scale."""
    return Quantization(np.float32([scale]), np.array([zero_point]))


class GraphBuilder:
    """A graph under construction; tensors are names, nodes are called after their results.

    ``meaning`` is (scale, zero point); the type is int8 with it and float32 without.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.tensors: dict[str, Tensor] = {}
        self.inputs: list[str] = []

    def tensor(self, name: str, shape, meaning=None, *, dtype=None, data=None) -> str:
        """Add a tensor."""
        dtype = dtype or ("float32" if meaning is None else "int8")
        found = None if meaning is None else quantization(*meaning)
        self.tensors[name] = Tensor(name, tuple(shape), dtype, found, data)
        return name

    def input(self, name: str, shape, meaning=None, **options: Any) -> str:
        """Add an input of the graph."""
        self.inputs.append(name)
        return self.tensor(name, shape, meaning, **options)

    def constant(self, name: str, data: np.ndarray, meaning=None) -> str:
        """Add a constant."""
        return self.tensor(name, data.shape, meaning, dtype=data.dtype.name, data=data)

    def node(
        self, op: str, inputs, name: str, shape, meaning=None, /, dtype=None, **attributes
    ) -> str:
        """Add a node with one output, of its name."""
        self.tensor(name, shape, meaning, dtype=dtype)
        self.nodes.append(Node(f"{op}_{name}", op, tuple(inputs), (name,), attributes))
        return name

    def build(self, *outputs: str, file_format: str = "tflite") -> Graph:
        """Return the graph with these outputs."""
        nodes, inputs = tuple(self.nodes), tuple(self.inputs)
        return Graph("test", nodes, self.tensors, inputs, outputs, file_format)
