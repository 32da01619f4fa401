"""From nodes of a file to nodes of a graph, still in the file's order of axes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tpulite.frontend.onnx.read.model import OnnxModel, OnnxNode
from tpulite.frontend.onnx.weights import real_values
from tpulite.graph.graph import Graph, Node, Quantization, Tensor

_UNKNOWN_SHAPE = "its shape is known only at run time"
_INTEGERS = "it computes with 8-bit integers that have no scale"

_VOCABULARY = frozenset(
    [
        "conv",
        "depthwise",
        "dense",
        "add",
        "sub",
        "mul",
        "max_pool",
        "average_pool",
        "maximum",
        "minimum",
        "prelu",
        "mean",
        "sum",
        "reduce_max",
        "reduce_min",
        "pad",
        "pick",
        "concat",
        "reshape",
        "requantize",
        "quantize",
        "dequantize",
        "batch_norm",
        "softmax",
        "argmax",
        "transpose",
    ]
)
"""Operators whose attributes graphs promise; what we cannot translate must not bear such a name."""

_QUANTIZED = ("int8", "uint8", "int4", "uint4", "int2", "uint2", "int16", "uint16", "int32")


class UncoveredError(ValueError):
    """Our operators do not cover a node, for a reason about "it"."""


class Importer:
    """Collects the nodes and tensors of a graph.

    Parameters
    ----------
    model : OnnxModel
        The file.
    rules : mapping of str to Rule
        How standard operators are translated, by name.
    """

    def __init__(self, model: OnnxModel, rules: Mapping[str, "Rule"]) -> None:
        self.model = model
        self.rules = rules
        self.nodes: list[Node] = []
        self.tensors: dict[str, Tensor] = {}
        self._aliases: dict[str, str] = {}
        self._weights: set[str] = set()
        self._read = {name for node in model.nodes for name in node.inputs} | {*model.outputs}
        self._dequantized: dict[str, str] = {}
        self._names: set[str] = set()
        self._node: OnnxNode = OnnxNode("", "", "", (), (), {}, "")

    def run(self, name: str) -> Graph:
        """Translate all nodes."""
        for tensor in self.model.inputs:
            self._declare(tensor)
        for node in self.model.nodes:
            self._node = node
            rule = Importer._keep if node.domain else self.rules.get(node.op, Importer._keep)
            try:
                rule(self, node)
            except UncoveredError as error:
                reason = str(error)
                self.emit("unsupported", node.inputs, _named_outputs(node), reason=reason)
        for output in self.model.outputs:
            if output in self._aliases:
                self._node = OnnxNode(f"{output}/copy", "Identity", "", (), (), {}, "Identity")
                self.emit("reshape", [output], [output], shape=self.shape(output) or ())
            elif output not in self.tensors:
                self._declare(output)
        return Graph(
            name,
            tuple(self.nodes),
            self.tensors,
            self.model.inputs,
            self.model.outputs,
            "onnx",
        )

    # What rules ask.

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor, None if it is not known."""
        name = self._resolve(name)
        if name in self.tensors:
            known = self.tensors[name]
            return None if known.dtype == "object" else known.shape
        return self.model.types.get(name, ("object", None))[1]

    def known_shape(self, name: str, rank: int = 0) -> tuple[int, ...]:
        """Return a shape; an `UncoveredError` if it is unknown, or has fewer than ``rank`` axes."""
        if (shape := self.shape(name)) is None or len(shape) < rank:
            raise UncoveredError(_UNKNOWN_SHAPE)
        return shape

    def constant(self, name: str) -> np.ndarray | None:
        """Return the value of a tensor of the file if it is a constant."""
        return self.model.constants.get(self._resolve(name))

    def is_read(self, name: str) -> bool:
        """Tell whether anybody reads a tensor."""
        return bool(name) and name in self._read

    def known(self, name: str) -> np.ndarray | None:
        """Return the value of a tensor if it is a constant, perhaps a quantized one."""
        value = self.constant(name)
        if value is None and (source := self._dequantized.get(self._resolve(name))):
            return real_values(self.tensors[source])
        return value

    def is_weight(self, name: str) -> bool:
        """Tell whether a tensor is a constant, perhaps a quantized one."""
        name = self._resolve(name)
        return name in self.model.constants or name in self._weights

    # What rules do.

    def emit(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], /, **attributes: Any
    ) -> None:
        """Add a node; its outputs have the types that the file infers unless declared before."""
        names = [self._declare(self._resolve(name)) if name else "" for name in inputs]
        name = self._node.name
        while name in self._names:
            name += "+"
        self._names.add(name)
        for output in outputs:
            self._aliases.pop(output, None)
            if output not in self.tensors:
                self._declare(output)
        if op in ("dequantize", "quantize", "transpose") and self.is_weight(names[0]):
            self._weights.update(outputs)
        if op == "dequantize" and self.tensors[names[0]].data is not None:
            self._dequantized[outputs[0]] = names[0]
        self.nodes.append(
            Node(name, op, tuple(names), tuple(outputs), attributes, self._node.source)
        )

    def alias(self, name: str, value: str) -> None:
        """Make ``name`` another name of ``value``."""
        self._aliases[name] = self._resolve(value)

    def temporary(self, role: str, shape: Sequence[int], dtype: str) -> str:
        """Declare a tensor that the file does not have."""
        name = f"{self._node.outputs[0]}/{role}"
        self.tensors[name] = Tensor(name, tuple(int(extent) for extent in shape), dtype)
        return name

    def add_constant(self, role: str, value: np.ndarray) -> str:
        """Declare a constant that the file does not have."""
        name = f"{self._node.outputs[0]}/{role}"
        self.tensors[name] = Tensor(name, value.shape, value.dtype.name, data=value)
        self._weights.add(name)
        return name

    def dtype(self, name: str) -> str:
        """Return the dtype of a tensor."""
        if name in self.tensors:
            return self.tensors[name].dtype
        return self.model.types.get(self._resolve(name), ("object", None))[0]

    def check_numbers(self, *names: str) -> None:
        """Check that one can compute with tensors: their shapes are known, and scales of integers.

        Integers that have scales are dequantized before anything is computed with them.
        """
        for name in names:
            self.known_shape(name)
        if any(self.dtype(name) in ("int8", "uint8") for name in names):
            raise UncoveredError(_INTEGERS)

    def quantization(self, name: str) -> Quantization | None:
        """Return what the integers of a tensor mean, as far as it is known."""
        name = self._resolve(name)
        return self.tensors[name].quantization if name in self.tensors else None

    def quantize_tensor(self, name: str, quantization: Quantization) -> str:
        """Say what the integers of a tensor mean; return its name, or that of a copy of a constant.

        Raises
        ------
        UncoveredError
            If they mean something else elsewhere: the node is then the library's.
        """
        name = self._declare(self._resolve(name))
        tensor = self.tensors[name]
        if tensor.quantization is None:
            self.tensors[name] = Tensor(name, tensor.shape, tensor.dtype, quantization, tensor.data)
        elif not same_quantization(tensor.quantization, quantization):
            if tensor.data is None:
                raise UncoveredError(
                    f"Tensor {name!r} has two quantizations: scales "
                    f"{tensor.quantization.scale.tolist()} and {quantization.scale.tolist()}, zero "
                    f"points {tensor.quantization.zero_point.tolist()} and "
                    f"{quantization.zero_point.tolist()}"
                )
            copy = f"{self._node.outputs[0]}/{name}"
            self.tensors[copy] = Tensor(copy, tensor.shape, tensor.dtype, quantization, tensor.data)
            return copy
        return name

    def read_quantization(
        self, tensor: str, scale: str, zero_point: str, axis: int
    ) -> Quantization | None:
        """Return checked parameters; None if the library alone knows what they mean.

        They are not constants, one for each block, or scales that are not finite and positive.

        Raises
        ------
        ValueError
            If the numbers of channels differ.
        """
        scales = self.constant(scale)
        points = self.constant(zero_point) if zero_point else np.zeros(1, np.int64)
        if scales is None or points is None or scales.ndim > 1:
            return None
        if points.dtype.name not in (*_QUANTIZED, "int64"):
            return None  # 8-bit floats
        scales = scales.astype(np.float32).reshape(-1)
        points = points.astype(np.int64).reshape(-1)
        if not scales.size:
            raise ValueError(f"Tensor {tensor!r} has no scale")
        if not np.all(np.isfinite(scales) & (scales > 0)):
            return None
        if scales.size == 1 and points.size == 1:
            return Quantization(scales, points)
        shape = self.shape(self._resolve(tensor))
        if shape is None:
            return None
        if not -len(shape) <= axis < len(shape) or scales.size != shape[axis]:
            raise ValueError(
                f"Tensor {tensor!r} of shape {list(shape)} has {scales.size} scales along axis "
                f"{axis}"
            )
        if points.size not in (1, scales.size):
            raise ValueError(
                f"Tensor {tensor!r} has {scales.size} scales and {points.size} zero points"
            )
        return Quantization(scales, np.broadcast_to(points, scales.shape).copy(), axis % len(shape))

    def _resolve(self, name: str) -> str:
        return self._aliases.get(name, name)

    def _declare(self, name: str) -> str:
        """Make a tensor of the file a tensor of the graph."""
        if name not in self.tensors:
            dtype, shape = self.model.types.get(name, ("object", None))
            if shape is None:
                dtype, shape = "object", ()
            self.tensors[name] = Tensor(name, shape, dtype, data=self.model.constants.get(name))
        return name

    def _keep(self, node: OnnxNode) -> None:
        """Keep a node for which there is no rule."""
        if node.op.lower() in _VOCABULARY:
            raise UncoveredError(
                f"unsupported operator {node.op} of the domain {node.domain or 'ONNX'}"
            )
        self.emit(node.op.lower(), node.inputs, _named_outputs(node), **node.attributes)


Rule = Callable[[Importer, OnnxNode], None]
"""Translates a node, or emits nothing and raises an `UncoveredError`."""


def _named_outputs(node: OnnxNode) -> list[str]:
    return [name or f"{node.name}/{i}" for i, name in enumerate(node.outputs)]


def same_quantization(a: Quantization, b: Quantization) -> bool:
    """Tell whether integers mean the same under both."""
    return (
        a.axis == b.axis
        and np.array_equal(a.scale, b.scale)
        and np.array_equal(a.zero_point, b.zero_point)
    )
