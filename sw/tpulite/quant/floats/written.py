"""Nodes and constants that replace one node of an ONNX graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

_NUM_OUTPUTS = 18
"""Version of the operators from which Split wants the number of its results."""


@dataclass
class Written:
    """Nodes and constants that replace one node; their names begin with its name."""

    name: str
    opset: int  #: Version of the standard operators.
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, role: str, value: np.ndarray | np.floating) -> str:
        """Add a constant; return its name."""
        name = f"{self.name}/{role}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def add(
        self, kind: str, inputs: Sequence[str], role: str, *, output: str = "", **attributes: Any
    ) -> str:
        """Add an operator with one result; return its name, which is ``output`` if given."""
        name = f"{self.name}/{role}"
        node = helper.make_node(kind, inputs, [output or name], name=name, **attributes)
        self.nodes.append(node)
        return output or name

    def reshape(self, x: str, shape: tuple[int, ...], role: str, *, output: str = "") -> str:
        """Give a tensor a shape; return its name."""
        extents = self.constant(f"{role}_shape", np.array(shape, np.int64))
        return self.add("Reshape", [x, extents], role, output=output)

    def concat(self, parts: Sequence[str], axis: int, role: str, *, output: str = "") -> str:
        """Join tensors; return the name of the whole."""
        if len(parts) == 1 and not output:
            return parts[0]
        return self.add("Concat", parts, role, output=output, axis=axis)

    def split(self, x: str, count: int, axis: int, role: str) -> list[str]:
        """Divide a tensor into equal ones; return their names."""
        if count == 1:
            return [x]
        name = f"{self.name}/{role}"
        names = [f"{name}.{index}" for index in range(count)]
        fields: dict[str, Any] = {"axis": axis}
        if self.opset >= _NUM_OUTPUTS:
            fields["num_outputs"] = count
        self.nodes.append(helper.make_node("Split", [x], names, name=name, **fields))
        return names
