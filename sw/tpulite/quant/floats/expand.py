"""Operators of ONNX Runtime's that decoders have, and rotations, in terms of standard ones.

Shapes behind them are then known, and what follows looks for one form of each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike

from tpulite.frontend.onnx.library import CONTRIBUTED
from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.axes import Axes
from tpulite.quant.floats.graph import Links
from tpulite.quant.floats.written import Written

__all__ = ["expand_decoders"]

_AXES_INPUT = 18
"""Version from which the axes of a mean are an input."""

_EPSILON, _EPSILON_OF_SUMS = 1e-5, 1e-12
"""What normalizations, and those of sums, add to variances if a file does not say it."""

_LAYER_NORM = 17
"""Version that brought LayerNormalization."""

_HEADS_APART, _FLAT = 4, 3
"""Axes of a tensor with heads, [B, H, T, D], and of one whose channels hold them, [B, T, H D]."""


def expand_decoders(model: onnx.ModelProto, opset: int) -> None:
    """Replace operators in place; those that mean something rarer stay.

    Parameters
    ----------
    model : ModelProto
        The network.
    opset : int
        Version of the standard operators.
    """
    for rules in (_RULES, _ROTATIONS):  # what is behind the first has shapes for the second
        if any((node.domain, node.op_type) in rules for node in model.graph.node):
            _expand(model, opset, rules)


def _expand(model: onnx.ModelProto, opset: int, rules: "_Rules") -> None:
    links = Links(model.graph)
    axes = Axes(model, links)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        rule = rules.get((node.domain, node.op_type))
        written = Written(node.output[0], opset)
        expansion = _Expansion(node, links, axes, written)
        if rule is None or not rule(expansion):
            nodes.append(node)
            continue
        nodes += written.nodes
        model.graph.initializer.extend(written.constants)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


@dataclass
class _Expansion:
    """What replaces an operator."""

    node: onnx.NodeProto
    links: Links
    axes: Axes
    written: Written

    def input(self, index: int) -> str:
        """Return the name of an input; empty if it is not given."""
        return self.node.input[index] if index < len(self.node.input) else ""

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


def _simplified(e: _Expansion) -> bool:
    """Normalize by the root mean square: x, factors."""
    if attributes_of(e.node).get("axis", -1) != -1 or e.output(1):
        return False
    _rms(e, e.input(0), e.input(1), _EPSILON)
    return True


def _skip_simplified(e: _Expansion) -> bool:
    """Normalize a sum: x, skip, factors, bias; the sum is the last output."""
    if e.output(1) or e.output(2):
        return False
    _rms(e, _sum(e, e.input(3)), e.input(2), _EPSILON_OF_SUMS)
    return True


def _skip(e: _Expansion) -> bool:
    """Normalize a sum: x, skip, factors, addends, bias; the sum is the last output."""
    if e.output(1) or e.output(2) or e.written.opset < _LAYER_NORM:
        return False
    epsilon = attributes_of(e.node).get("epsilon", _EPSILON_OF_SUMS)
    given = [e.input(2), *([e.input(3)] if e.input(3) else [])]
    total = _sum(e, e.input(4))
    e.add("LayerNormalization", total, *given, y=e.node.output[0], axis=-1, epsilon=epsilon)
    return True


def _sum(e: _Expansion, bias: str) -> str:
    """Add both inputs, and a bias to the one that is a product."""
    first, second = e.input(0), e.input(1)
    if bias:
        writer = e.links.writer.get(second)
        if writer is not None and writer.op_type == "MatMul":
            second = e.add("Add", second, bias)
        else:
            first = e.add("Add", first, bias)
    return e.add("Add", first, second, y=e.output(3))


def _rms(e: _Expansion, x: str, gamma: str, usual: float) -> None:
    """Normalize; ``usual`` is the epsilon of a node that has none."""
    epsilon = e.constant(np.float32(attributes_of(e.node).get("epsilon", usual)))
    square = e.add("Mul", x, x)
    if e.written.opset < _AXES_INPUT:
        mean = e.add("ReduceMean", square, axes=[-1])
    else:
        mean = e.add("ReduceMean", square, e.constant(np.array([-1])))
    root = e.add("Sqrt", e.add("Add", mean, epsilon))
    e.add("Mul", e.add("Div", x, root), gamma, y=e.node.output[0])


def _quick_gelu(e: _Expansion) -> bool:
    """Multiply with the sigmoid of a multiple; of alpha 1 it is SiLU."""
    x, alpha = e.input(0), float(attributes_of(e.node).get("alpha", 1.702))
    inner = x if alpha == 1 else e.add("Mul", x, e.constant(np.float32(alpha)))
    e.add("Mul", x, e.add("Sigmoid", inner), y=e.node.output[0])
    return True


def _rotary_contributed(e: _Expansion) -> bool:
    """Rotate channels: x, positions, cosines, sines."""
    flags = attributes_of(e.node)
    if flags.get("is_packed_batching") or flags.get("scale", 1.0) != 1:
        return False
    return _rotary(e, e.input(2), e.input(3), e.input(1))


def _rotary_standard(e: _Expansion) -> bool:
    """Rotate channels: x, cosines, sines, perhaps positions."""
    return _rotary(e, e.input(1), e.input(2), e.input(3))


def _rotary(e: _Expansion, cos: str, sin: str, positions: str) -> bool:
    """Write x * cos + turned(x) * sin, if all channels of a head are rotated."""
    flags = attributes_of(e.node)
    tables = [e.links.constants.get(name) for name in (cos, sin)]
    heads, pairs = int(flags.get("num_heads", 0)), bool(flags.get("interleaved", 0))
    if tables[0] is None or tables[1] is None or flags.get("rotary_embedding_dim", 0):
        return False
    index, rank = e.links.constants.get(positions), e.axes.rank(e.input(0)) or (heads and _FLAT)
    if positions and (e.axes.rank(positions) if index is None else index.ndim) != 2:
        return False
    if rank not in (_HEADS_APART, _FLAT):
        return False
    half = tables[0].shape[-1]
    wide = (
        np.repeat(t, 2, -1) if pairs else np.concatenate([t, t], -1)
        for t in map(np.asarray, tables)
    )
    axis = 2 if rank == _FLAT else 1
    names = []
    for table in wide:
        if not positions or index is not None:
            chosen = table if index is None else table[index]
            names.append(e.constant(np.expand_dims(chosen, axis)))
        else:
            gathered = e.add("Gather", e.constant(table), positions)
            names.append(e.add("Unsqueeze", gathered, e.constant(np.array([axis]))))
    x = e.input(0)
    if rank == _FLAT:
        x = e.add("Reshape", x, e.constant(np.array([0, 0, -1, 2 * half])))
    turned = e.add("MatMul", x, e.constant(_turn(half, pairs)))
    products = [e.add("Mul", each, table) for each, table in zip((x, turned), names, strict=True)]
    y = e.add("Add", *products, y="" if rank == _FLAT else e.node.output[0])
    if rank == _FLAT:
        e.add("Reshape", y, e.constant(np.array([0, 0, -1])), y=e.node.output[0])
    return True


def _turn(half: int, pairs: bool) -> np.ndarray:
    """Return the matrix that turns each pair of channels by 90 degrees: float32 [D, D]."""
    low = np.arange(0, 2 * half, 2) if pairs else np.arange(half)
    high = low + 1 if pairs else low + half
    matrix = np.zeros((2 * half, 2 * half), np.float32)
    matrix[high, low], matrix[low, high] = -1, 1
    return matrix


_Rules = dict[tuple[str, str], Callable[[_Expansion], bool]]
"""What replaces an operator of a domain; false if it stays."""

_RULES: _Rules = {
    # ONNX Runtime registers this one among the standard operators.
    ("", "SimplifiedLayerNormalization"): _simplified,
    (CONTRIBUTED, "SimplifiedLayerNormalization"): _simplified,
    (CONTRIBUTED, "SkipSimplifiedLayerNormalization"): _skip_simplified,
    (CONTRIBUTED, "SkipLayerNormalization"): _skip,
    (CONTRIBUTED, "QuickGelu"): _quick_gelu,
}

_ROTATIONS: _Rules = {
    (CONTRIBUTED, "RotaryEmbedding"): _rotary_contributed,
    ("", "RotaryEmbedding"): _rotary_standard,
}
