"""Small ONNX models for tests, and ONNX Runtime to run them.

>>> b = OnnxBuilder()
>>> x = b.input("x", (1, 3, 8, 8))
>>> y = b.node("Conv", x, np.zeros((4, 3, 3, 3), np.float32), pads=[1, 1, 1, 1])
>>> run_onnx(b.build(y), np.ones((1, 3, 8, 8), np.float32))[0].shape
(1, 4, 8, 8)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite_testing.oracles.onnx_session import open_onnx

__all__ = ["OnnxBuilder", "run_onnx"]

_CONTRIBUTED = "com.microsoft"


class OnnxBuilder:
    """Collects nodes; arrays among the inputs of a node become constants."""

    def __init__(self, *, opset: int = 17) -> None:
        self.opset = opset
        self.inputs: list[onnx.ValueInfoProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def input(self, name: str, shape: Sequence[int | str], dtype: str = "float32") -> str:
        """Declare an input; extents that are strings are symbols."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, value: np.ndarray) -> str:
        """Add a constant."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op: str, *inputs: str | np.ndarray, name: str = "", **attributes: Any) -> str:
        """Add a node with one output; return the name of that."""
        (output,) = self.outputs(op, 1, *inputs, name=name, **attributes)
        return output

    def outputs(
        self,
        op: str,
        count: int,
        *inputs: str | np.ndarray,
        name: str = "",
        contributed: bool = False,
        **attributes: Any,
    ) -> list[str]:
        """Add a node with several outputs, perhaps one that ONNX Runtime contributes."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        own = op.startswith(("QLinear", "QGemm")) and op not in ("QLinearConv", "QLinearMatMul")
        domain = _CONTRIBUTED if own or contributed else ""
        first = f"{op.lower()}{len(self.nodes)}"
        made = [first, *(f"{first}_{index}" for index in range(1, count))]
        self.nodes.append(helper.make_node(op, names, made, name=name, domain=domain, **attributes))
        return made

    def quantize(self, x: str, scale: float, zero_point: int, dtype: str = "int8") -> str:
        """Quantize and dequantize."""
        parameters = (np.float32(scale), np.array(zero_point, dtype))
        return self.node(
            "DequantizeLinear", self.node("QuantizeLinear", x, *parameters), *parameters
        )

    def weight(self, values: np.ndarray, scale: Any, axis: int = 0, zero_point: int = 0) -> str:
        """Dequantize constant weights."""
        scales = np.asarray(scale, np.float32)
        points = np.full(scales.shape, zero_point, values.dtype)
        return self.node("DequantizeLinear", values, scales, points, axis=axis)

    def build(self, *outputs: str, dtype: str = "int8") -> bytes:
        """Return the file; outputs that inference does not know get ``dtype``."""
        declared = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "test", self.inputs, declared, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(_CONTRIBUTED, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model)
        types = {value.name: value for value in inferred.graph.output}
        for value in model.graph.output:
            value.CopyFrom(types[value.name])
            if not value.type.WhichOneof("value"):
                kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
                value.type.tensor_type.elem_type = kind
        return model.SerializeToString()


def run_onnx(data: bytes, *inputs: np.ndarray) -> list[np.ndarray]:
    """Run a model in ONNX Runtime, without its own fusions."""
    session = open_onnx(data, level="DISABLE_ALL")
    feeds = {entry.name: x for entry, x in zip(session.get_inputs(), inputs, strict=True)}
    return [np.asarray(value) for value in session.run(None, feeds)]
