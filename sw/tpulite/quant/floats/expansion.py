"""What replaces one operator of an ONNX graph by standard ones."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.axes import Axes
from tpulite.quant.floats.graph import Links

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


_Value = TypeVar("_Value")


@dataclass
class Expansion:
    """An operator, and what replaces it."""

    node: onnx.NodeProto
    links: Links
    axes: Axes
    written: Written
    #: What operators before it have written that others need, too: see :meth:`once`.
    shared: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def flags(self) -> dict[str, Any]:
        """Attributes of the operator."""
        return attributes_of(self.node)

    def input(self, index: int) -> str:
        """Return the name of an input; empty if it is not given."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def value(self, index: int) -> np.ndarray | None:
        """Return an input that is a constant; None if it is not."""
        return self.links.constants.get(self.input(index))

    def shape(self, index: int) -> list[int]:
        """Return the extents of an input, 0 is unknown; none if the rank is not known."""
        value = self.value(index)
        return self.axes.shape(self.input(index)) if value is None else list(value.shape)

    def output(self, index: int) -> str:
        """Return the name of an output; empty if nothing reads it."""
        name = self.node.output[index] if index < len(self.node.output) else ""
        return name if name in self.links.readers or name in self.links.outputs else ""

    def constant(self, value: ArrayLike) -> str:
        """Add a constant."""
        count = len(self.written.constants)
        return self.written.constant(f"constant{count}", np.asarray(value))

    def add(self, op: str, *inputs: str, y: str = "", **attributes: Any) -> str:
        """Add an operator; return the name of its result."""
        role = f"{op}{len(self.written.nodes)}"
        return self.written.add(op, inputs, role, output=y, **attributes)

    def once(self, key: Hashable, write: Callable[[], _Value]) -> _Value:
        """Return what ``write`` returns; only the first operator with this key calls it."""
        if key not in self.shared:
            self.shared[key] = write()
        return self.shared[key]


Rules = dict[tuple[str, str], Callable[[Expansion], bool]]
"""What replaces an operator of a domain and a name; false if it stays."""
