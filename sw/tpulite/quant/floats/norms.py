"""Normalizations as operators that integers have, each of whose results has 8 bits.

The mean and the variance are products with one column, as are the tensors that spread them over
channels; between them stand a subtraction, a square, a reciprocal root and a multiplication.
A normalization by the root mean square has neither the mean nor the subtraction.
Ranges are chosen by what the result of the normalization loses.

Variances of one network differ by a factor of hundreds, and 8 bits of the largest leave the others
a step or two. So a variance may have several windows, columns of one product: each of them is a
quarter of the one before, and clipped at both ends. Their reciprocal roots add up.
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

_WINDOWS = 6
"""Most windows of a variance."""

_BETTER = 2.0
"""Ratio of squared errors for which a variance has more windows."""

_SIGNED = 127

_UNIT = 64
"""Integer that is the weight of the first window's root: those of others are halves of it."""

_LEAST = 1e-6
"""Smallest factor of a channel that has a scale of its own."""


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


@dataclass(frozen=True)
class Windows:
    """Windows of a variance with epsilon.

    Window k shows a variance divided by 4^k: the first one up to ``top``, each of the others
    between a quarter of it and ``top``.
    """

    count: int
    top: float

    @property
    def divisors(self) -> np.ndarray:
        """Divisor of each window: float64 [count]."""
        return 4.0 ** np.arange(self.count)

    @property
    def lows(self) -> np.ndarray:
        """Low end of each window: float64 [count]."""
        return np.where(np.arange(self.count) > 0, self.top / 4, 0.0)

    @property
    def shares(self) -> np.ndarray:
        """What the root of each window counts: float64 [count]."""
        return 1 / np.sqrt(self.divisors)

    @property
    def rest(self) -> float:
        """What the roots of windows that are below their low ends add up to."""
        return float(self.shares[1:].sum() / np.sqrt(self.top / 4))

    def roots(self, variance: np.ndarray, end: float) -> np.ndarray:
        """Return reciprocal roots of variances, [rows, 1], as 8 bits with a range have them."""
        shown = rounded(np.maximum(variance / self.divisors - self.lows, 0.0), 0.0, self.top)
        shown = rounded(shown + self.lows, 0.0, self.top)
        with np.errstate(divide="ignore"):
            root = rounded(np.minimum(1 / np.sqrt(shown), end), 0.0, end)
        return rounded((root @ self.shares)[:, None] - self.rest, 0.0, end)


class Steps:
    """The operators of one normalization, and their ranges.

    Parameters
    ----------
    norm : Norm
        The normalization.
    divisor : ndarray, [C]
        Roots of integers up to 127: the tensor that is normalized is divided by them.
    others : ndarray, [C]
        The result is divided by them.
    moved : bool
        Whether others add what the normalization adds to its channels.
    rows : ndarray, [rows, C]
        Samples of what is normalized, not divided yet, in float64.

    Attributes
    ----------
    ranges : dict of str to Range
        Ranges of all tensors, the one that is normalized included.
    """

    def __init__(
        self,
        norm: Norm,
        divisor: np.ndarray,
        others: np.ndarray,
        rows: np.ndarray,
        *,
        moved: bool,
    ) -> None:
        self.norm, self._divisor, self._others = norm, divisor, others
        self._factor = norm.gamma * divisor / others
        self._addend = norm.beta / others if norm.beta.any() and not moved else None
        self._names = {
            what: f"{norm.y}_{what}"
            for what in (
                *("mean", "means", "centered", "square", "variance", "above", "shown", "window"),
                *("deviation", "root", "roots", "scaled"),
            )
        }
        self._names["scaled" if self._addend is None else "shifted"] = norm.y
        if not norm.centered:
            self._names["centered"] = norm.x
        self._windows, self.ranges = self._choose(rows)

    def nodes(self, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
        """Return the operators; their constants are added to a graph."""
        count, named = self._divisor.size, self._names

        def constant(what: str, value: np.ndarray) -> str:
            return add_constant(graph, f"{self.norm.y}_{what}_constant", value)

        def node(operator: str, output: str, *inputs: str) -> onnx.NodeProto:
            names = [named.get(x, x) for x in inputs]
            name = named[output]
            return helper.make_node(operator, names, [name], name=f"{name}_{operator}")

        windows = self._windows
        weights = constant("weights", np.outer(self._divisor**2 / count, 1 / windows.divisors))
        epsilon = constant("epsilon", self.norm.epsilon / windows.divisors - windows.lows)
        spread_roots = constant("shares", np.outer(windows.shares, self._factor))
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
        ]
        shown = "variance"
        if windows.count > 1:
            top = add_constant(graph, f"{self.norm.y}_top_constant", np.float64(windows.top))
            made += [
                node("Relu", "above", "variance"),
                node("Add", "shown", "above", constant("lows", windows.lows)),
                node("Clip", "window", "shown", "", top),
            ]
            shown = "window"
        made += [
            node("Sqrt", "deviation", shown),
            node("Reciprocal", "root", "deviation"),
        ]
        if windows.count > 1:
            spread = f"{self.norm.y}_spread_roots"
            made += [
                helper.make_node("MatMul", [named["root"], spread_roots], [spread], name=spread),
                node("Add", "roots", spread, constant("rest", -windows.rest * self._factor)),
            ]
        else:
            made.append(node("MatMul", "roots", "root", spread_roots))
        made.append(node("Mul", "scaled", "centered", "roots"))
        if self._addend is not None:
            made.append(node("Add", "shifted", "scaled", constant("addend", self._addend)))
        return made

    def weights(self) -> dict[str, list[float]]:
        """Return ends of the ranges of weights that are integers, one for each of their columns."""
        units = np.maximum(np.abs(self._factor), _LEAST) / _UNIT
        ends = {
            "weights": _SIGNED / self._divisor.size / self._windows.divisors,
            "shares": _SIGNED * units,
        }
        return {f"{self.norm.y}_{what}_constant": [*each] for what, each in ends.items()}

    def addend_range(self, addend: np.ndarray, rest: np.ndarray) -> Range:
        """Choose the range of a tensor that is added to another one before the normalization.

        Parameters
        ----------
        addend, rest : ndarray, [rows, C]
            Samples of both, not divided, in float64.
        """
        rows = addend / self._divisor
        wanted = self.norm.apply(addend + rest)

        def lost(part: float) -> float:
            found = rounded(rows, *_part(rows, part)) * self._divisor + rest
            return float(np.square((self.norm.apply(found) - wanted) * self.norm.gamma).sum())

        return _part(rows, float(min(_FRACTIONS, key=lost)))

    def _choose(self, x: np.ndarray) -> tuple[Windows, dict[str, Range]]:
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
        counts = np.square(centered * self._divisor * self.norm.gamma).sum(axis=1, keepdims=True)
        roots = _of_roots(root, counts)
        windows = _best_windows(variance, roots[1], counts)
        scaled = centered * root * self._factor
        least, most = min(0.0, float(self._factor.min())), max(0.0, float(self._factor.max()))
        ends |= {
            "square": (0.0, float(part) * top),
            **dict.fromkeys(("variance", "above", "shown", "window"), (0.0, windows.top)),
            "root": roots,
            "roots": (roots[1] * least, roots[1] * most),
            "scaled": _least_error(scaled, self._others),
        }
        if self._addend is not None:
            ends["shifted"] = _least_error(scaled + self._addend, self._others)
        named = {self._names[what]: each for what, each in ends.items()}
        return windows, {self.norm.x: (low, high), **named}

    def _lost(self, rows: np.ndarray, wanted: np.ndarray, ends: Range) -> float:
        """Return what a range of the input costs the result."""
        found = self.norm.apply(rounded(rows, *ends) * self._divisor)
        return float(np.square((found - wanted) * self.norm.gamma).sum())


def _part(rows: np.ndarray, part: float) -> Range:
    """Return the range of numbers whose magnitude is at most a part of the largest one."""
    low, high = min(0.0, float(rows.min())), max(0.0, float(rows.max()))
    most = part * max(-low, high)
    return max(low, -most), min(high, most)


def _spare(values: np.ndarray) -> Range:
    return min(0.0, float(values.min()) * _SPARE), max(0.0, float(values.max()) * _SPARE)


def _best_windows(variance: np.ndarray, end: float, counts: np.ndarray) -> Windows:
    """Return the windows whose roots lose least: one, unless more are far better.

    Squared errors of roots, whose range has an end, count as much as given: float64 [rows, 1].
    """
    top = _spare(variance)[1]
    tried = [Windows(count, top / 4 ** (count - 1)) for count in range(1, _WINDOWS + 1)]
    lost = [
        float((counts * np.square(each.roots(variance, end) - 1 / np.sqrt(variance))).sum())
        for each in tried
    ]
    best = int(np.argmin(lost))
    return tried[best] if lost[best] * _BETTER < lost[0] else tried[0]


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
