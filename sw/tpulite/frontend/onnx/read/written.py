"""Operators of QONNX that are written in ONNX's own."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import attributes_of


class Written:
    """An operator that is written in others.

    Its tensors have names that begin with ``name``; messages call it ``label``.
    """

    def __init__(
        self,
        node: onnx.NodeProto,
        label: str,
        name: str,
        constants: Mapping[str, np.ndarray],
        outputs: Collection[str],
    ) -> None:
        self.node, self.label, self.name = node, label, name
        self.constants, self.outputs = constants, outputs
        self.flags: Mapping[str, Any] = attributes_of(node)
        self.tensors: list[onnx.TensorProto] = []
        self._names: set[str] = set()

    def operand(self, index: int, what: str) -> np.ndarray:
        """Return a constant input as float32; ValueError if it is none."""
        name = self.node.input[index] if index < len(self.node.input) else ""
        if (value := self.constants.get(name)) is None:
            raise self.error(f"has a {what} that is computed; qonnx-cleanup may fold it")
        return value.astype(np.float32)

    def tensor(self, role: str, value: np.ndarray) -> str:
        """Add a constant; return its name."""
        name = f"{self.name}/{role}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def made(self, op: str, *inputs: str, y: str = "", **flags: Any) -> onnx.NodeProto:
        """Return an operator with one output, that of the whole unless another is named."""
        name = f"{self.name}/{op}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return helper.make_node(op, inputs, [y or self.node.output[0]], name=name, **flags)

    def error(self, text: str) -> ValueError:
        """Return an error that names the operator."""
        return ValueError(f"node {self.label!r} ({self.node.op_type}) {text}")
