"""ONNX graphs, an operator at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

_OPSET, _IR = 17, 8
"""Versions that ONNX Runtime 1.20 and all later ones read."""


class OnnxGraph:
    """A graph under construction.

    Parameters
    ----------
    name : str
        Its name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, np.ndarray] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, kind: int, shape: Sequence[int]) -> None:
        """Add an input."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))

    def output(self, name: str, x: str, kind: int, shape: Sequence[int]) -> None:
        """Give a tensor the name of an output."""
        writer = next(node for node in reversed(self._nodes) if x in node.output)
        writer.output[list(writer.output).index(x)] = name
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def constant(self, name: str, value: np.ndarray | np.generic) -> str:
        """Add a constant; all of one name are the same."""
        self._constants[name] = np.asarray(value)
        return name

    def extents(self, *values: int) -> str:
        """Add a constant of extents."""
        return self.constant(f"extents {list(values)}", np.array(values, np.int64))

    def node(self, op: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add an operator with one output; return its name."""
        made = output or f"{op}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [made], made, **attributes))
        return made

    def shaped(self, x: str, *shape: int) -> str:
        """Add Reshape."""
        return self.node("Reshape", x, self.extents(*shape))

    def split(self, x: str, axis: int, *sizes: int) -> list[str]:
        """Add Split."""
        made = [f"Split_{len(self._nodes)}.{i}" for i in range(len(sizes))]
        inputs = [x, self.extents(*sizes)]
        self._nodes.append(helper.make_node("Split", inputs, made, made[0], axis=axis))
        return made

    def file(self) -> bytes:
        """Return the file."""
        constants = [
            numpy_helper.from_array(value, name) for name, value in self._constants.items()
        ]
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, constants)
        opsets = [helper.make_opsetid("", _OPSET)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=_IR)
        return made.SerializeToString()
