"""QONNX files, as Brevitas, QKeras and FINN write them: their quantizers in ONNX's own operators.

A quantizer rounds floats to integers of some bits, and makes floats of these again
(https://github.com/fastmachinelearning/qonnx):

    y = (round(clip(x / scale + zero point)) - zero point) * scale

Of a constant these integers are written, of an activation QuantizeLinear, Clip if it has fewer than
8 bits, and DequantizeLinear.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import onnx
import onnx.version_converter
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import array, attributes_of, graphs_of
from tpulite.frontend.onnx.read.integer_weights import fold_into_weights
from tpulite.frontend.onnx.read.truncations import Truncation, Written

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
"""Domains of the operators, the oldest one last."""

_OPSET = 13
"""Version from which scales may be of channels."""

_BYTE = 8
_HALF = 128
_WORD = 32

_ROUNDINGS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + np.float32(0.5)),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - np.float32(0.5)),
}
"""By the names that QONNX has for them, in capitals."""


def has_quantizers(model: onnx.ModelProto) -> bool:
    """Tell whether a model has operators of QONNX.

    Raises
    ------
    ValueError
        If a branch, a loop or a function has one.
    """
    inner = [node for graph in list(graphs_of(model.graph))[1:] for node in graph.node]
    inner += [node for function in model.functions for node in function.node]
    for node in inner:
        if node.domain in DOMAINS:
            raise ValueError(
                f"node {node.name!r} ({node.op_type}) of QONNX is in a branch, a loop or a "
                "function; export the network without them"
            )
    return any(node.domain in DOMAINS for node in model.graph.node)


def with_standard_quantizers(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Return a model of QONNX in ONNX's own operators.

    Parameters
    ----------
    model : ModelProto
        It may change.
    opset : int
        Version of its standard operators.

    Raises
    ------
    ValueError
        If an operator of QONNX cannot be written so; the message names it.
    """
    if opset < _OPSET:
        try:
            model = onnx.version_converter.convert_version(model, _OPSET)
        except (onnx.version_converter.ConvertError, RuntimeError) as error:
            raise ValueError(
                f"QONNX files need opset {_OPSET} or newer, and this one of opset {opset} cannot "
                "be converted; export it with a newer one"
            ) from error
    constants = _constants(model.graph)
    outputs = {value.name for value in model.graph.output}
    taken = {tensor.name for tensor in model.graph.initializer}
    taken |= {name for node in model.graph.node for name in (node.name, *node.output)}
    every = [node for graph in graphs_of(model.graph) for node in graph.node]
    reads = Counter(name for node in every for name in node.input)
    reads.update(outputs)
    nodes: list[onnx.NodeProto] = []
    for index, node in enumerate(model.graph.node):
        if node.domain not in DOMAINS:
            nodes.append(node)
            continue
        label = name = node.name or f"{node.op_type}_{index}"
        while any(each.startswith(f"{name}/") for each in taken):
            name += "_"
        if node.op_type == "Trunc":
            written = Truncation(node, label, name, constants, outputs)
            before = {y: each for each in nodes for y in each.output}
            shape = partial(_shape, model, tuple(nodes))
            nodes = _used([*nodes, *written.nodes(before, shape)], node.input[0], before, reads)
        else:
            written = _Quantizer(node, label, name, constants, outputs)
            nodes += written.nodes()
        taken |= {tensor.name for tensor in written.tensors}
        constants |= {tensor.name: array(tensor) for tensor in written.tensors}
        model.graph.initializer.extend(written.tensors)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    left = [entry for entry in model.opset_import if entry.domain not in DOMAINS]
    del model.opset_import[:]
    model.opset_import.extend(left)
    fold_into_weights(model)
    return model


def _constants(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """Return the tensors of a graph that are known, those of Constant and Identity, too."""
    constants = {tensor.name: array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            for value in attributes_of(node).values():
                constants[node.output[0]] = np.asarray(value)
        elif node.op_type == "Identity" and node.input and node.input[0] in constants:
            constants[node.output[0]] = constants[node.input[0]]
    return constants


def _shape(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], name: str
) -> tuple[int, ...] | None:
    """Return the shape of a tensor of some of a model's nodes, 0 for what is open."""
    graph = onnx.GraphProto()
    graph.CopyFrom(model.graph)
    del graph.node[:], graph.output[:]
    graph.node.extend(nodes)
    part = helper.make_model(graph, opset_imports=[x for x in model.opset_import if not x.domain])
    try:
        graph = onnx.shape_inference.infer_shapes(part).graph
    except onnx.shape_inference.InferenceError:
        return None
    for value in (*graph.value_info, *graph.input):
        if value.name == name and value.type.tensor_type.HasField("shape"):
            return tuple(each.dim_value for each in value.type.tensor_type.shape.dim)
    return None


def _used(
    nodes: list[onnx.NodeProto],
    name: str,
    before: Mapping[str, onnx.NodeProto],
    reads: Mapping[str, int],
) -> list[onnx.NodeProto]:
    """Return nodes without those that made a tensor for a node that no longer reads it."""
    while name in before and reads[name] == 1 and all(name not in each.input for each in nodes):
        maker = before[name]
        nodes = [each for each in nodes if each is not maker]
        name = next((x for x in maker.input if x in before), "")
    return nodes


class _Quantizer(Written):
    """A quantizer."""

    def nodes(self) -> Sequence[onnx.NodeProto]:
        """Return the operators that take its place."""
        kind = self.node.op_type
        if kind not in ("Quant", "IntQuant", "BipolarQuant") or not self.node.input:
            raise self.error("is an operator of QONNX that tpulite does not have")
        if kind == "BipolarQuant":
            return self._binary(self.operand(1, "scale"))
        scale, zero, bits = (
            self.operand(i, what) for i, what in enumerate(("scale", "zero point", "bit width"), 1)
        )
        if bits.size != 1 or bits.item() not in range(1, _WORD + 1):
            raise self.error(f"has the bit width {bits}, not one from 1 to {_WORD}")
        if not np.isfinite(scale).all() or (scale <= 0).any():
            raise self.error("has a scale that is not positive")
        count = int(bits.item())
        if count == 1 and self.flags.get("signed", 1):
            return self._binary(scale)
        low, high = self._range(count)
        known = self.constants.get(self.node.input[0])
        if known is None:
            return self._activation(scale, zero, count, (low, high))
        if not np.isfinite(known).all():
            raise self.error("has a constant that is not finite")
        rounded = self._rounding()((known / scale + zero).clip(low, high))
        return self._constant(rounded, scale, zero, count)

    def _binary(self, scale: np.ndarray) -> Sequence[onnx.NodeProto]:
        """Return a constant of 1 and -1."""
        known = self.constants.get(self.node.input[0])
        if known is None:
            raise self.error("makes an activation 1 or -1; only weights may be binary")
        return self._constant(np.where(known >= 0, 1, -1), scale, np.zeros(1), _BYTE)

    def _range(self, bits: int) -> tuple[int, int]:
        narrow = bool(self.flags.get("narrow", 0))
        if not self.flags.get("signed", 1):
            return 0, (1 << bits) - 1 - narrow
        half = 1 << (bits - 1)
        return narrow - half, half - 1

    def _rounding(self) -> Callable[[np.ndarray], np.ndarray]:
        name = str(self.flags.get("rounding_mode", "ROUND")).upper()
        if name not in _ROUNDINGS:
            raise self.error(f"has the unknown rounding {name}")
        return _ROUNDINGS[name]

    def _constant(
        self, rounded: np.ndarray, scale: np.ndarray, zero: np.ndarray, bits: int
    ) -> Sequence[onnx.NodeProto]:
        """Return a constant: integers and a scale, or floats where ONNX has no such integers."""
        axis, y = _axis(scale), self.node.output[0]
        if bits > _BYTE or axis is None or np.any(zero) or rounded.max(initial=0) >= _HALF:
            value = ((rounded - zero) * scale).astype(np.float32)
            if y in self.outputs:
                return [self.made("Identity", self.tensor("value", value))]
            self.tensors.append(numpy_helper.from_array(value, y))
            return []
        names = self._scales(scale, np.int8(0))
        integers = self.tensor("integers", rounded.astype(np.int8))
        return [self.made("DequantizeLinear", integers, *names, axis=axis)]

    def _activation(
        self, scale: np.ndarray, zero: np.ndarray, bits: int, bounds: tuple[int, int]
    ) -> Sequence[onnx.NodeProto]:
        """Return QuantizeLinear, Clip and DequantizeLinear."""
        axis = _axis(scale)
        if bits > _BYTE or bits == 1:
            raise self.error(f"has the bit width {bits}; activations have 2 to {_BYTE}")
        if axis is None:
            raise self.error("has a scale of several axes")
        if np.any(zero):
            raise self.error("gives an activation a zero point; it must be 0")
        if self._rounding() is not np.round:
            mode = self.flags["rounding_mode"]
            raise self.error(f"rounds an activation by {mode}; it must be ROUND or HALF_EVEN")
        # LiteRT's activations are int8, so the least unsigned number is -128.
        offset = np.int8(0 if self.flags.get("signed", 1) else -_HALF)
        names, made = self._scales(scale, offset), f"{self.name}/integers"
        nodes = [self.made("QuantizeLinear", self.node.input[0], *names, y=made, axis=axis)]
        low, high = (bound + int(offset) for bound in bounds)
        if (low, high) != (-_HALF, _HALF - 1):
            ends = {"low": low, "high": high}
            limits = [self.tensor(end, np.array(bound, np.int8)) for end, bound in ends.items()]
            clipped = f"{self.name}/clipped"
            nodes.append(self.made("Clip", made, *limits, y=clipped))
            made = clipped
        return [*nodes, self.made("DequantizeLinear", made, *names, axis=axis)]

    def _scales(self, scale: np.ndarray, zero: np.integer) -> tuple[str, str]:
        flat = scale.reshape(-1) if scale.size > 1 else scale.reshape(())
        zeros = np.full(flat.shape, zero)
        return self.tensor("scale", flat.astype(np.float32)), self.tensor("zero_point", zeros)


def _axis(scale: np.ndarray) -> int | None:
    """Return the axis that scales are of, from the end; None if there are several axes."""
    axes = [axis - scale.ndim for axis, extent in enumerate(scale.shape) if extent > 1]
    return axes[0] if len(axes) == 1 else None if axes else -1
