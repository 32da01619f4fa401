"""Integer weights take in what stands behind them: transposes and batch normalizations."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import array, attributes_of, graphs_of

_EPSILON = 1e-5
"""What a normalization adds to variances if it does not say it."""

_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_MATRIX = 2
"""Axes of a matrix."""

_BIAS = 2
"""Input of a product that is its bias, but of MatMul, which has none."""


@dataclass(frozen=True, eq=False)
class _Weight:
    """Constant integers, with their scales and zero points, which are of an axis."""

    integers: np.ndarray
    scale: np.ndarray
    zeros: np.ndarray
    axis: int

    def transposed(self, perm: Sequence[int]) -> "_Weight":
        axis = perm.index(self.axis % self.integers.ndim) if self.scale.size > 1 else 0
        return replace(self, integers=self.integers.transpose(perm), axis=axis)

    def times(self, gain: np.ndarray, axis: int) -> "_Weight | None":
        """Return the weights with a factor for each index of an axis.

        The integers stay, but for signs, where the factor is negative, and zeros where next to
        nothing is left, as pruning does. They are int64, as -128 may become 128, and 1 of uint8 -1.
        None if the factor and the scales are not of the same channels.
        """
        ndim = self.integers.ndim
        if self.zeros.any() or (self.scale.size > 1 and self.axis % ndim != axis % ndim):
            return None
        if gain.shape != (self.integers.shape[axis],):
            return None
        shape = [1] * ndim
        shape[axis] = -1
        scale = np.broadcast_to(np.abs(gain) * self.scale.astype(np.float64), gain.shape)
        dead = scale < np.finfo(np.float32).tiny
        sign = np.where(dead, 0, np.where(gain < 0, -1, 1)).reshape(shape)
        signed = self.integers.astype(np.int64) * sign
        scale = np.where(dead, 1 if dead.all() else scale.max(), scale).astype(np.float32)
        zeros = np.zeros(gain.shape, self.integers.dtype)
        return _Weight(signed, scale, zeros, axis % ndim)


class _Weights:
    """The integer weights of a graph."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.writers = {name: node for node in graph.node for name in node.output}
        self.reads = Counter(name for node in graph.node for name in node.input)
        inner = (node for each in list(graphs_of(graph))[1:] for node in each.node)
        self.reads.update(name for node in inner for name in node.input)
        self.reads.update(value.name for value in graph.output)
        self._beside: dict[str, onnx.NodeProto] = {}

    def get(self, name: str) -> _Weight | None:
        """Return a tensor that DequantizeLinear makes of constants, for one reader alone."""
        node = self.writers.get(name)
        if node is None or node.op_type != "DequantizeLinear" or self.reads[name] > 1:
            return None
        values = [self.constant(each) for each in node.input]
        if len(values) < 3 or any(value is None for value in values):
            return None
        return _Weight(*values, axis=int(attributes_of(node).get("axis", 1)))  # type: ignore[arg-type]

    def constant(self, name: str) -> np.ndarray | None:
        """Return a tensor that is known; DequantizeLinear may make it of one scale."""
        if name in self.tensors:
            return array(self.tensors[name])
        weight = self.get(name)
        if weight is None or weight.scale.size > 1:
            return None
        return (weight.integers.astype(np.float32) - weight.zeros) * weight.scale

    def set(self, name: str, weight: _Weight) -> None:
        """Let DequantizeLinear make a tensor of other constants."""
        values = {"weight": weight.integers, "scales": weight.scale, "zeros": weight.zeros}
        names = [self.add(f"{name}/{role}", value) for role, value in values.items()]
        made = helper.make_node("DequantizeLinear", names, [name], f"{name}/made", axis=weight.axis)
        self.writers[name].CopyFrom(made)

    def beside(self, product: onnx.NodeProto, channels: np.ndarray) -> str:
        """Return a tensor that is channels of the input of a product."""
        x = product.input[0]
        name = f"{product.output[0]}/{x}"
        inputs = [x, self.add(f"{name}/channels", channels)]
        self._beside[name] = helper.make_node("Gather", inputs, [name], f"{name}/gather", axis=1)
        return name

    def add_beside(self) -> None:
        """Add the operators that make these tensors to the graph, each before its product."""
        if not self._beside:
            return
        nodes = []
        for node in self.graph.node:
            nodes += [self._beside.pop(name) for name in node.input if name in self._beside]
            nodes.append(node)
        del self.graph.node[:]
        self.graph.node.extend(nodes)

    def add(self, name: str, value: np.ndarray) -> str:
        while name in self.tensors:
            name += "_"
        self.tensors[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        self.graph.initializer.append(self.tensors[name])
        return name


def fold_into_weights(model: onnx.ModelProto) -> None:
    """Fold transposes of integer weights, and batch normalizations behind their products.

    ``(w * x + b - mean) * gain + beta``, where the gain is gamma over a standard deviation, is a
    product with the scales of ``w`` times the gain. What others read, too, stays as it is.
    """
    weights = _Weights(model.graph)
    gone = [node for node in model.graph.node if _transposed(node, weights)]
    for node in gone:
        model.graph.node.remove(node)
    matrices = _matrices(model)
    gone = [node for node in model.graph.node if _biased(node, weights, matrices)]
    gone += [node for node in model.graph.node if _normalized(node, weights, matrices)]
    for node in gone:
        model.graph.node.remove(node)
    weights.add_beside()


def _transposed(node: onnx.NodeProto, weights: _Weights) -> bool:
    """Transpose a weight; tell whether the node is no longer needed."""
    weight = weights.get(node.input[0]) if node.op_type == "Transpose" else None
    if weight is None:
        return False
    perm = attributes_of(node).get("perm", range(weight.integers.ndim)[::-1])
    source, target = weights.writers[node.input[0]], node.output[0]
    source.output[0] = target
    weights.writers[target] = source
    weights.set(target, weight.transposed(list(perm)))
    return True


def _matrices(model: onnx.ModelProto) -> set[str]:
    """Return the tensors that have two axes."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except onnx.shape_inference.InferenceError:
        return set()
    values = (*graph.value_info, *graph.input, *graph.output)
    return {x.name for x in values if len(x.type.tensor_type.shape.dim) == _MATRIX}


def _biased(add: onnx.NodeProto, weights: _Weights, matrices: set[str]) -> bool:
    """Make Gemm of a product of matrices and a bias; tell whether the node is no longer needed."""
    if add.op_type != "Add":
        return False
    for source, name in (add.input, add.input[::-1]):
        product, bias = weights.writers.get(source), weights.constant(name)
        if product is None or product.op_type != "MatMul" or source not in matrices:
            continue
        weight = weights.get(product.input[1])
        if weight is None or weights.reads[source] > 1 or product.input[0] not in matrices:
            continue
        if bias is not None and bias.shape == weight.integers.shape[1:]:
            if name not in weights.tensors:  # it may be made behind the product
                name = weights.add(f"{name}/value", bias)
            _become_gemm(product, name)
            product.output[0] = add.output[0]
            weights.writers[add.output[0]] = product
            return True
    return False


def _become_gemm(product: onnx.NodeProto, bias: str) -> None:
    product.op_type = "Gemm"
    product.input[:] = [*product.input[:_BIAS], bias]


def _normalized(norm: onnx.NodeProto, weights: _Weights, matrices: set[str]) -> bool:
    """Fold a normalization; tell whether the node is no longer needed."""
    product = weights.writers.get(norm.input[0]) if norm.op_type == "BatchNormalization" else None
    if product is None or product.op_type not in _PRODUCTS or weights.reads[norm.input[0]] > 1:
        return False
    flags, weight = attributes_of(product), weights.get(product.input[1])
    values = [weights.constant(name) for name in (*norm.input[1:], *product.input[_BIAS:])]
    plain = flags.get("alpha", 1) == 1 and flags.get("beta", 1) == 1 and flags.get("group", 1) == 1
    if weight is None or (product.op_type != "Conv" and not plain):
        return False
    if product.op_type == "MatMul" and not matrices.issuperset((product.input[0], norm.input[0])):
        return False
    known = [value.astype(np.float64) for value in values if value is not None]
    training = attributes_of(norm).get("training_mode", 0) or len(norm.output) > 1
    if len(known) < len(values) or training:
        return False
    gamma, beta, mean, variance, *bias = known
    gain = gamma / np.sqrt(variance + attributes_of(norm).get("epsilon", _EPSILON))
    axis = _output_axis(product, flags)
    folded = weight.times(gain, axis)
    if folded is None:
        return False
    limits = np.iinfo(weight.integers.dtype)
    if folded.integers.min() < limits.min:  # of unsigned ones
        return False
    if folded.integers.max() > limits.max:
        if flags.get("transA", 0):
            return False
        folded, channels = _parted(folded, limits.max, 1 - axis, flags.get("group", 1))
        product.input[0] = weights.beside(product, channels)
    folded = replace(folded, integers=folded.integers.astype(weight.integers.dtype))
    weights.set(product.input[1], folded)
    shift = ((bias[0] if bias else 0) - mean) * gain + beta
    name = weights.add(f"{norm.output[0]}/bias", shift.astype(np.float32))
    if product.op_type == "MatMul":
        _become_gemm(product, name)
    product.input[:] = [*product.input[:_BIAS], name]
    product.output[0] = norm.output[0]
    return True


def _parted(weight: _Weight, most: int, axis: int, groups: int) -> tuple[_Weight, np.ndarray]:
    """Return weights whose integers of one more than ``most`` have the rest in more inputs.

    The channels that all inputs are come with them, group by group: some of them once more.
    """
    rest = weight.integers > most
    again = np.flatnonzero(rest.any(axis=tuple(i for i in range(rest.ndim) if i != axis)))
    rest = rest.take(again, axis).astype(np.int64)
    integers = np.concatenate([np.minimum(weight.integers, most), rest], axis)
    channels = np.arange(groups * weight.integers.shape[axis]).reshape(groups, -1)
    channels = np.concatenate([channels, channels[:, again]], axis=1)
    return replace(weight, integers=integers), channels.reshape(-1)


def _output_axis(product: onnx.NodeProto, flags: dict[str, int]) -> int:
    """Return the axis of a product's weights that its output channels are."""
    if product.op_type == "Gemm" and flags.get("transB", 0):
        return 0
    return 0 if product.op_type == "Conv" else 1
