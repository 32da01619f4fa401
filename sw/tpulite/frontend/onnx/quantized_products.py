"""Products of integers where a file has DequantizeLinear, a product of floats, QuantizeLinear.

ONNX Runtime computes these as integers or as floats: that depends on the CPU, and on which tensors
are outputs. Its operators with a quantization of their own leave no choice.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.tensor import array

__all__ = ["quantize_products"]

_OPERATORS = {"Conv": "QLinearConv", "Gemm": "QGemm", "MatMul": "QLinearMatMul"}
_CONTRIBUTED = "com.microsoft"
_CLIPS_INTEGERS = 12
"""Version of the operators that brought that."""

_SAME_SCALE = 1e-3
"""By how much the scale of a bias may differ from that of the sums, as readers of files allow."""


def quantize_products(model: onnx.ModelProto, keep: Collection[str] = ()) -> None:
    """Make products of quantized tensors QLinearConv, QLinearMatMul and QGemm, in place.

    Parameters
    ----------
    model : onnx.ModelProto
        The file.
    keep : collection of str
        Tensors that must stay, besides the outputs.
    """
    graph = model.graph
    if max((e.version for e in model.opset_import if not e.domain), default=0) < _CLIPS_INTEGERS:
        return
    file = _File.of(graph, keep)
    nodes = [new for node in graph.node for new in file.product(node) or [node]]
    if not file.removed:
        return
    nodes = [node for node in nodes if id(node) not in file.removed]
    read = {name for node in nodes for name in _read(node)} | file.kept
    nodes = [n for n in nodes if n.op_type != "DequantizeLinear" or n.output[0] in read]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    graph.initializer.extend(file.initializers)
    if all(entry.domain != _CONTRIBUTED for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(_CONTRIBUTED, 1))


@dataclass(frozen=True)
class _Meaning:
    """Names of integers, of their scale and zero point, and the values of these."""

    names: tuple[str, str, str]
    scale: np.ndarray
    zero: np.ndarray
    axis: int


@dataclass
class _File:
    """Who reads and writes which tensor, and what changes."""

    constants: dict[str, np.ndarray]
    writers: dict[str, onnx.NodeProto]
    readers: dict[str, list[onnx.NodeProto]]
    kept: set[str]
    removed: set[int] = field(default_factory=set)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    @classmethod
    def of(cls, graph: onnx.GraphProto, keep: Collection[str]) -> "_File":
        """Read a graph."""
        constants = {tensor.name: array(tensor) for tensor in graph.initializer}
        readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                constants[node.output[0]] = array(node.attribute[0].t)
            for name in _read(node):
                readers[name].append(node)
        writers = {name: node for node in graph.node for name in node.output}
        return cls(constants, writers, readers, {o.name for o in graph.output} | {*keep})

    def product(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Return what takes the place of a product; nothing if it stays."""
        if node.op_type not in _OPERATORS or node.domain or len(node.input) < 2:
            return []
        chain = self._chain(node)
        x, weight = (self._meaning(self.writers.get(name)) for name in node.input[:2])
        y = self._meaning(chain[-1]) if chain else None
        if x is None or weight is None or y is None or not _alike(x, y):
            return []
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        channels = self._channels(node.op_type, attributes, weight)
        if not channels or weight.zero.dtype != x.zero.dtype != np.uint8:
            return []
        scale = x.scale.reshape(-1)[0] * weight.scale.reshape(-1)
        bias = self._bias(node, scale.astype(np.float32), channels)
        if bias is None:
            return []
        self.removed.update(map(id, chain))
        inputs = [*x.names, *weight.names]
        domain = ""
        if node.op_type == "Gemm":
            inputs += [*(bias or ("",)), *y.names[1:]]
            attributes = {"transB": attributes.get("transB", 0)}
            domain = _CONTRIBUTED
        else:
            inputs += [*y.names[1:], *bias]
        op, (result,) = _OPERATORS[node.op_type], chain[-1].output
        ends = {"inputs": inputs, "name": node.name, "domain": domain}
        if len(chain) == 1:
            return [helper.make_node(op, outputs=[result], **ends, **attributes)]
        # A relu is a clamp of the integers; unlike Max, Clip has a kernel of 8 bits.
        least = self._added(f"{result}/least", y.zero.reshape(()))
        sums = f"{result}/unclamped"
        clip = helper.make_node("Clip", [sums, least], [result], name=chain[0].name)
        return [helper.make_node(op, outputs=[sums], **ends, **attributes), clip]

    def _chain(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Return what quantizes a result, perhaps behind a relu; nothing if others read it."""
        chain, name = [], node.output[0]
        for op in ("Relu", "QuantizeLinear"):
            readers = self.readers[name]
            if name in self.kept or len(readers) != 1 or readers[0].domain:
                return []
            if readers[0].op_type == op:
                chain.append(readers[0])
                name = readers[0].output[0]
        return chain if chain and chain[-1].op_type == "QuantizeLinear" else []

    def _meaning(self, node: onnx.NodeProto | None) -> _Meaning | None:
        """Return what the integers beside a (de)quantization mean, if that is known."""
        if node is None or node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            return None
        if len(node.input) < 3 or node.domain:
            return None
        scale, zero = (self.constants.get(name) for name in node.input[1:3])
        if scale is None or zero is None or scale.dtype != np.float32 or scale.size != zero.size:
            return None
        attributes = {a.name: a.i for a in node.attribute}
        if attributes.get("block_size", 0) or zero.dtype not in (np.int8, np.uint8):
            return None
        name = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
        return _Meaning(
            (name, node.input[1], node.input[2]), scale, zero, attributes.get("axis", 1)
        )

    def _channels(self, op: str, attributes: dict, weight: _Meaning) -> int:
        """Return how many channels constant weights have; 0 if the library cannot take them."""
        data = self.constants.get(weight.names[0])
        if data is None or (op != "Conv" and data.ndim != 2) or len(np.unique(weight.zero)) > 1:
            return 0
        axis = 0 if op == "Conv" or attributes.get("transB", 0) else 1
        if weight.scale.size > 1 and weight.axis % data.ndim != axis:
            return 0
        factors = (attributes.get(name, 1.0) for name in ("alpha", "beta"))
        if attributes.get("transA", 0) or any(factor != 1.0 for factor in factors):
            return 0
        return data.shape[axis]

    def _bias(
        self, node: onnx.NodeProto, scale: np.ndarray, channels: int
    ) -> tuple[str, ...] | None:
        """Return the name of a bias in the scale of the sums, if there is one; None if unknown."""
        if len(node.input) < 3 or not node.input[2]:
            return ()
        name = node.input[2]
        writer = self.writers.get(name)
        real = self.constants.get(name)
        if writer is not None and writer.op_type == "DequantizeLinear":
            data, found = (self.constants.get(each) for each in writer.input[:2])
            if data is None or found is None or data.dtype != np.int32 or len(writer.input) > 3:
                return None
            zero = self.constants.get(writer.input[2]) if len(writer.input) > 2 else np.zeros(1)
            if zero is None or np.any(zero):
                return None
            if np.allclose(found, scale, rtol=_SAME_SCALE, atol=0):
                return (writer.input[0],) if data.shape == (channels,) else None
            real = data * found.astype(np.float64)
        if real is None or real.shape != (channels,):
            return None
        limits = np.iinfo(np.int32)
        steps = np.clip(np.rint(real / scale.astype(np.float64)), limits.min, limits.max)
        return (self._added(f"{node.output[0]}/bias", steps.astype(np.int32)),)

    def _added(self, name: str, value: np.ndarray) -> str:
        """Add a constant; return its name."""
        self.initializers.append(numpy_helper.from_array(value, name))
        return name


def _alike(x: _Meaning, y: _Meaning) -> bool:
    return x.scale.size == y.scale.size == 1 and x.zero.dtype == y.zero.dtype


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield what a node reads, the graphs in it included."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _read(inner)
            yield from (value.name for value in graph.output)
