"""Small QONNX files, as Brevitas writes them."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tpulite.frontend.onnx.read.qonnx import DOMAINS


class Draft:
    """A QONNX file that grows."""

    def __init__(self, shape=(1, 3, 6, 6), domain: str = DOMAINS[0], opset: int = 13) -> None:
        self.nodes, self.tensors = [], []
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        self.domain, self.opset = domain, opset
        self.rng = np.random.default_rng(len(shape))

    def constant(self, value) -> str:
        """Add a float32 constant."""
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(self, op: str, *inputs, domain: str = "", **flags) -> str:
        """Add an operator; inputs that are no names become constants."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        y = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [y], domain=domain, **flags))
        return y

    def quant(self, x, scale, bits, zero=0, *, op: str = "Quant", **flags) -> str:
        """Add a quantizer."""
        flags = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"} | flags
        return self.node(op, x, scale, zero, bits, domain=self.domain, **flags)

    def weight(self, *shape: int, bits: int = 4) -> str:
        """Return weights with a scale for each output channel."""
        values = self.rng.normal(size=shape)
        scale = np.abs(values).reshape(shape[0], -1).max(1) / ((1 << bits - 1) - 1)
        return self.quant(values, scale.reshape(-1, *[1] * (len(shape) - 1)), bits, narrow=1)

    def build(self, y: str, dims=None) -> bytes:
        """Return the file, with one output."""
        output = helper.make_tensor_value_info(y, TensorProto.FLOAT, dims)
        graph = helper.make_graph(self.nodes, "net", self.inputs, [output], self.tensors)
        versions = [helper.make_opsetid("", self.opset), helper.make_opsetid(self.domain, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString()
