"""Normalizations as operators that integers have, each of whose results has 8 bits.

The mean and the variance are products with one column, as are the tensors that spread them over
channels; between them stand a subtraction, a square, a reciprocal root and two multiplications.
A normalization by the root mean square has neither the mean nor the subtraction.
Ranges are chosen by what the result of the normalization loses.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from tpulite.quant.floats.axes import add_constant
from tpulite.quant.floats.ranges import Range, rounded

_FRACTIONS = np.linspace(1.0, 0.02, 50)
"""Parts of the largest number that are tried as the end of a range."""

_SHARES = np.linspace(0.5, 1.0, 33)
"""Shares of the rows whose reciprocal roots a range may hold."""

_FAR_BETTER = 4.0
"""Ratio of squared errors for which a range leaves numbers of samples out."""

_SPARE = 1.1
"""How much larger statistics may be in other samples."""


@dataclass
class Norm:
    """A normalization over the last axis."""

    #: What is normalized, and the result.
    x: str
    y: str
    #: Ndarray, [C]. Factors and addends of channels.
    gamma: np.ndarray
    beta: np.ndarray
    epsilon: float  #: What is added to the variance.
    #: One operator, or those that an exporter writes for it; the last one is last.
    nodes: list[onnx.NodeProto]
    #: Where factors, and then addends, are read: an operator, and which of its inputs.
    places: list[tuple[onnx.NodeProto, int]]
    centered: bool = True  #: Whether the mean is subtracted: not by the root mean square alone.

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Return normalized rows, before factors and addends."""
        centered = x - x.mean(axis=-1, keepdims=True) if self.centered else x
        variance = np.square(centered).mean(axis=-1, keepdims=True)
        return centered / np.sqrt(variance + self.epsilon)


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
        if not norm.centered:
            self._names["centered"] = norm.x

    def nodes(self, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
        """Return the operators; their constants are added to a graph."""
        count, named = self._divisor.size, self._names

        def constant(what: str, value: np.ndarray) -> str:
            return add_constant(graph, f"{self.norm.y}_{what}_constant", value)

        def node(operator: str, output: str, *inputs: str) -> onnx.NodeProto:
            names = [named.get(x, x) for x in inputs]
            name = named[output]
            return helper.make_node(operator, names, [name], name=f"{name}_{operator}")

        weights = constant("weights", (self._divisor**2 / count).reshape(count, 1))
        epsilon = constant("epsilon", np.array([self.norm.epsilon]))
        ones = constant("ones", np.ones((1, count)))
        factor = constant("factor", self._factor)
        squares = f"{self.norm.y}_squares"
        made = []
        if self.norm.centered:
            average = constant("average", (self._divisor / count).reshape(count, 1))
            spread = constant("spread", (1 / self._divisor)[None])
            made += [
                node("MatMul", "mean", self.norm.x, average),
                node("MatMul", "means", "mean", spread),
                node("Sub", "centered", self.norm.x, "means"),
            ]
        made += [
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
        part = min(_FRACTIONS, key=lambda part: self._lost(rows, wanted, _part(rows, part)))
        low, high = _part(rows, float(part))
        rows = rounded(rows, low, high)
        ends: dict[str, Range] = {"centered": (low, high)}
        centered = rows
        if self.norm.centered:
            mean = (rows * self._divisor).mean(axis=1, keepdims=True)
            ends |= {"mean": _spare(mean), "means": _spare(mean / self._divisor)}
            centered = rows - mean / self._divisor
        square = centered**2
        weights = self._divisor**2 / self._divisor.size
        top = float(square.max())
        exact = square @ weights
        part = min(
            _FRACTIONS,
            key=lambda part: np.square(
                (rounded(square, 0.0, float(part) * top) @ weights - exact)
                / (exact + self.norm.epsilon)
            ).sum(),
        )
        variance = exact[:, None] + self.norm.epsilon
        root = 1 / np.sqrt(variance)
        roots = _of_roots(root, np.square(centered * self._factor).sum(axis=1, keepdims=True))
        normal = centered * root
        scaled = normal * self._factor
        ends |= {
            "square": (0.0, float(part) * top),
            "variance": _spare(variance),
            "root": roots,
            "roots": roots,
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


def _of_roots(root: np.ndarray, weights: np.ndarray) -> Range:
    """Return the range of reciprocal roots, the squared error of each of which has a weight.

    It holds all of them, unless it is far better without the largest: those of rows next to zero.
    """
    whole = _spare(root)
    ends = {whole[1]: 0.0} | dict.fromkeys(_SPARE * np.quantile(root, _SHARES), 0.0)
    for end in ends:
        ends[end] = float((weights * np.square(rounded(root, 0.0, end) - root)).sum())
    best = min(ends, key=lambda end: ends[end])
    return (0.0, best) if ends[best] * _FAR_BETTER < ends[whole[1]] else whole


def _least_error(values: np.ndarray, factor: np.ndarray) -> Range:
    """Return the range of least squared error of numbers times factors."""
    part = min(
        _FRACTIONS,
        key=lambda part: np.square(
            (rounded(values, *_part(values, float(part))) - values) * factor
        ).sum(),
    )
    return _part(values, float(part))
