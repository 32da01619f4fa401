"""Layer normalizations as operators that integers have, each of whose results has 8 bits.

The mean and the variance are products with one column, as are the tensors that spread them over
channels; between them stand a subtraction, a square, a reciprocal root and two multiplications.
Ranges are chosen by what the result of the normalization loses.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.axes import Axes
from tpulite.quant.floats.constants import add_constant
from tpulite.quant.floats.graph import Links, is_square
from tpulite.quant.floats.ranges import Range, rounded

__all__ = ["Norm", "Steps", "find_norms"]

_FRACTIONS = np.linspace(1.0, 0.02, 50)
"""Parts of the largest number that are tried as the end of a range."""

_SPARE = 1.1
"""How much larger statistics may be in other samples."""


@dataclass
class Norm:
    """A layer normalization over the last axis."""

    #: What is normalized, and the result.
    x: str
    y: str
    #: Ndarray, [C]. Factors and addends of channels.
    gamma: np.ndarray
    beta: np.ndarray
    epsilon: float  #: What is added to the variance.
    #: LayerNormalization, or the operators that an exporter writes for it; the last one is last.
    nodes: list[onnx.NodeProto]
    #: Where factors and addends are read: an operator, and which of its inputs.
    places: list[tuple[onnx.NodeProto, int]]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Return normalized rows, before factors and addends."""
        centered = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centered).mean(axis=-1, keepdims=True)
        return centered / np.sqrt(variance + self.epsilon)


def find_norms(model: onnx.ModelProto) -> list[Norm]:
    """Return the normalizations over the last axis whose factors are constants."""
    links = Links(model.graph)
    axes = Axes(model, links)
    found = (
        _whole(node, links, axes) or _decomposed(node, links, axes) for node in model.graph.node
    )
    return [norm for norm in found if norm is not None]


def _whole(node: onnx.NodeProto, links: Links, axes: Axes) -> Norm | None:
    """Return what a LayerNormalization is."""
    if node.op_type != "LayerNormalization" or len([x for x in node.output if x]) > 1:
        return None
    flags = attributes_of(node)
    gamma = links.constants.get(node.input[1])
    given = len(node.input) > 2 and node.input[2]
    beta = links.constants.get(node.input[2]) if given else np.zeros(1, np.float32)
    if gamma is None or beta is None or gamma.ndim != 1:
        return None
    if flags.get("axis", -1) not in (-1, axes.rank(node.input[0]) - 1):
        return None
    epsilon = float(flags.get("epsilon", 1e-5))
    beta = np.broadcast_to(beta, gamma.shape)
    places = [(node, 1), (node, 2)]
    return Norm(node.input[0], node.output[0], *_wide(gamma, beta), epsilon, [node], places)


def _decomposed(node: onnx.NodeProto, links: Links, axes: Axes) -> Norm | None:
    """Return the normalization that begins with the difference from a mean."""
    if node.op_type != "Sub":
        return None
    mean = links.writer.get(node.input[1])
    if not _is_mean(mean, node.input[0], links, axes):
        return None
    centered = node.output[0]
    readers = links.readers.get(centered, [])
    square = next((x for x in readers if is_square(x, links)), None)
    variance = None if square is None else links.only_reader(square.output[0])
    if square is None or not _is_mean(variance, square.output[0], links, axes):
        return None
    assert mean is not None and variance is not None
    add = links.only_reader(variance.output[0])
    epsilon = None if add is None else next(filter(None, map(links.scalar, add.input)), None)
    root = None if add is None or add.op_type != "Add" else links.only_reader(add.output[0])
    if epsilon is None or root is None or root.op_type != "Sqrt":
        return None
    divide = links.only_reader(root.output[0])
    if divide is None or divide.op_type != "Div" or list(divide.input) != [centered, *root.output]:
        return None
    assert add is not None
    scaled, shifted = _next(divide, "Mul", links), None
    if scaled is not None:
        shifted = _next(scaled[0], "Add", links)
    if scaled is None or shifted is None or len(readers) != 2 + (square.op_type == "Mul"):
        return None
    constants = [links.constants[each.input[index]] for each, index in (scaled, shifted)]
    if any(each.ndim != 1 or each.size == 1 for each in constants):
        return None
    nodes = [mean, node, square, variance, add, root, divide, scaled[0], shifted[0]]
    y = shifted[0].output[0]
    return Norm(
        node.input[0], y, *_wide(constants[0], constants[1]), epsilon, nodes, [scaled, shifted]
    )


def _next(node: onnx.NodeProto, kind: str, links: Links) -> tuple[onnx.NodeProto, int] | None:
    """Return the one operator behind another, and which of its inputs is a constant."""
    found = links.only_reader(node.output[0])
    if found is None or found.op_type != kind:
        return None
    places = [i for i, x in enumerate(found.input) if x in links.constants]
    return (found, places[0]) if places else None


def _is_mean(node: onnx.NodeProto | None, x: str, links: Links, axes: Axes) -> bool:
    """Tell whether an operator is the mean of a tensor over its last axis, which it keeps."""
    if node is None or node.op_type != "ReduceMean" or node.input[0] != x:
        return False
    flags = attributes_of(node)
    # An attribute up to opset 17, an input from then on.
    over = links.constants.get(node.input[1]) if len(node.input) > 1 else flags.get("axes")
    last = over is not None and list(over) in ([-1], [axes.rank(x) - 1])
    return last and flags.get("keepdims", 1) == 1


def _wide(gamma: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return gamma.astype(np.float64), beta.astype(np.float64)


class Steps:
    """The operators of one normalization, and their ranges.

    Parameters
    ----------
    norm : Norm
        The normalization.
    divisor : ndarray, [C]
        Roots of integers up to 127: the tensor that is normalized is divided by them.
    factor : ndarray, [C]
        What normalized channels are multiplied by; another divisor may be in it.
    addend : ndarray, [C], optional
        What is added to them.
    """

    def __init__(
        self, norm: Norm, divisor: np.ndarray, factor: np.ndarray, addend: np.ndarray | None
    ) -> None:
        self.norm, self._divisor, self._factor, self._addend = norm, divisor, factor, addend
        self._names = {
            what: f"{norm.y}_{what}"
            for what in (
                *("mean", "means", "centered", "square", "variance", "deviation", "root"),
                *("roots", "normal", "scaled"),
            )
        }
        self._names["scaled" if addend is None else "shifted"] = norm.y

    def nodes(self, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
        """Return the operators; their constants are added to a graph."""
        count, named = self._divisor.size, self._names

        def constant(what: str, value: np.ndarray) -> str:
            return add_constant(graph, f"{self.norm.y}_{what}_constant", value)

        def node(operator: str, output: str, *inputs: str) -> onnx.NodeProto:
            names = [named.get(x, x) for x in inputs]
            name = named[output]
            return helper.make_node(operator, names, [name], name=f"{name}_{operator}")

        column = (count, 1)
        average = constant("average", (self._divisor / count).reshape(column))
        spread = constant("spread", (1 / self._divisor)[None])
        weights = constant("weights", (self._divisor**2 / count).reshape(column))
        epsilon = constant("epsilon", np.array([self.norm.epsilon]))
        ones = constant("ones", np.ones((1, count)))
        factor = constant("factor", self._factor)
        squares = f"{self.norm.y}_squares"
        made = [
            node("MatMul", "mean", self.norm.x, average),
            node("MatMul", "means", "mean", spread),
            node("Sub", "centered", self.norm.x, "means"),
            node("Mul", "square", "centered", "centered"),
            helper.make_node("MatMul", [named["square"], weights], [squares], name=squares),
            node("Add", "variance", squares, epsilon),
            node("Sqrt", "deviation", "variance"),
            node("Reciprocal", "root", "deviation"),
            node("MatMul", "roots", "root", ones),
            node("Mul", "normal", "centered", "roots"),
            node("Mul", "scaled", "normal", factor),
        ]
        if self._addend is not None:
            made.append(node("Add", "shifted", "scaled", constant("addend", self._addend)))
        return made

    def weights(self) -> tuple[str, float]:
        """Return the name of the squares' weights, and the end of a range that holds them."""
        return f"{self.norm.y}_weights_constant", _SIGNED / self._divisor.size

    def ranges(self, x: np.ndarray) -> dict[str, Range]:
        """Choose ranges on rows of what is normalized, not divided yet: float64 [rows, C]."""
        rows = x / self._divisor
        wanted = self.norm.apply(x)
        ends = min(
            _FRACTIONS,
            key=lambda part: self._lost(rows, wanted, _part(rows, part)),
        )
        low, high = _part(rows, float(ends))
        rows = rounded(rows, low, high)
        mean = (rows * self._divisor).mean(axis=1, keepdims=True)
        centered = rows - mean / self._divisor
        square = centered**2
        weights = self._divisor**2 / self._divisor.size
        top = float(square.max())
        exact = square @ weights
        part = min(
            _FRACTIONS,
            key=lambda part: np.square(
                rounded(square, 0.0, float(part) * top) @ weights / exact - 1
            ).sum(),
        )
        variance = exact[:, None] + self.norm.epsilon
        root = 1 / np.sqrt(variance)
        normal = centered * root
        scaled = normal * self._factor
        ends = {
            "mean": _spare(mean),
            "means": _spare(mean / self._divisor),
            "centered": (low, high),
            "square": (0.0, float(part) * top),
            "variance": _spare(variance),
            "root": _spare(root),
            "roots": _spare(root),
            "normal": _least_error(normal, self._factor),
            "scaled": _least_error(scaled, np.ones(1)),
        }
        if self._addend is not None:
            ends["shifted"] = _least_error(scaled + self._addend, np.ones(1))
        return {self.norm.x: (low, high), **{self._names[k]: v for k, v in ends.items()}}

    def _lost(self, rows: np.ndarray, wanted: np.ndarray, ends: Range) -> float:
        """Return what a range of the input costs the result."""
        found = self.norm.apply(rounded(rows, *ends) * self._divisor)
        return float(np.square((found - wanted) * self._factor).sum())


_SIGNED = 127


def _part(rows: np.ndarray, part: float) -> Range:
    """Return the range of numbers whose magnitude is at most a part of the largest one."""
    low, high = min(0.0, float(rows.min())), max(0.0, float(rows.max()))
    most = part * max(-low, high)
    return max(low, -most), min(high, most)


def _spare(values: np.ndarray) -> Range:
    return min(0.0, float(values.min()) * _SPARE), max(0.0, float(values.max()) * _SPARE)


def _least_error(values: np.ndarray, factor: np.ndarray) -> Range:
    """Return the range of least squared error of numbers times factors."""
    part = min(
        _FRACTIONS,
        key=lambda part: np.square(
            (rounded(values, *_part(values, float(part))) - values) * factor
        ).sum(),
    )
    return _part(values, float(part))
