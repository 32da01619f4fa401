"""Tensor by tensor: where two runs of a network differ, and by how much."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph


@dataclass(frozen=True)
class Figures:
    """Sums over the elements of a tensor, of which a validation tool's figures are made.

    Values are steps of integer tensors, counted from the zero point, and the numbers themselves of
    float tensors; differences are in the same unit.
    """

    count: int = 0  #: How many elements.
    #: Sums of absolute and of squared differences.
    absolute: float = 0.0
    squared: float = 0.0
    #: Sums of the squares of both sides, and of their product.
    ours: float = 0.0
    theirs: float = 0.0
    product: float = 0.0

    @classmethod
    def of(cls, ours: np.ndarray, theirs: np.ndarray, gaps: np.ndarray) -> "Figures":
        """Return the sums of two arrays of float64 and their absolute differences."""
        products = (gaps * gaps, ours * ours, theirs * theirs, ours * theirs)
        return cls(gaps.size, float(gaps.sum()), *(float(each.sum()) for each in products))

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(*(getattr(self, x) + getattr(other, x) for x in asdict(self)))

    @property
    def mean(self) -> float:
        """Mean absolute difference."""
        return self.absolute / self.count if self.count else 0.0

    @property
    def rmse(self) -> float:
        """Root of the mean squared difference."""
        return math.sqrt(self.squared / self.count) if self.count else 0.0

    @property
    def cosine(self) -> float:
        """Cosine of the angle between both sides; 1 of two that are zero."""
        if not self.ours or not self.theirs:
            return float(self.ours == self.theirs)
        return self.product / math.sqrt(self.ours * self.theirs)

    @property
    def snr(self) -> float | None:
        """Energy of the oracle's side over that of the differences, in dB; None without any."""
        if not self.squared:
            return None
        return 10 * math.log10(self.theirs / self.squared) if self.theirs else -math.inf


@dataclass(frozen=True)
class TensorDifference:
    """How much a tensor differs, over all inputs that were compared."""

    #: The tensor, and what computes it.
    name: str
    node: str
    elements: int  #: How many elements were compared.
    different: int  #: How many of them differ.
    largest: float  #: Largest difference, in steps of integer tensors.
    #: Index of the first one that differs, with the number of the input in front.
    first: tuple[int, ...] | None
    left_out: int = 0  #: How many elements were not compared: their channels are not computed.
    beyond: int = 0  #: How many differ by more than the tolerance.
    #: What mean difference, RMSE, cosine and SNR are made of.
    figures: Figures = field(default_factory=Figures)
    #: Of outputs that are vectors of classes: how often the largest element is the same one, and of
    #: how many vectors.
    top1: tuple[int, int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, the figures computed."""
        plain = {name: value for name, value in vars(self).items() if name != "figures"}
        figures = {name: getattr(self.figures, name) for name in ("mean", "rmse", "cosine", "snr")}
        return plain | {name: value if _finite(value) else None for name, value in figures.items()}


class Comparer:
    """Two sides of a network, compared input by input.

    Parameters
    ----------
    names : mapping of str to str
        Tensors to compare, in the order in which they are computed, each with its node.
    channels : mapping of str to ndarray of bool, [C]
        Of tensors whose channels are not all to be compared: which ones are.
    graph : Graph, optional
        The network, which knows zero points, and which tensors are outputs.
    tolerance : float
        Difference up to which an element is not beyond it: in steps of integer tensors, in units
        of float tensors.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        channels: Mapping[str, np.ndarray] = MappingProxyType({}),
        graph: Graph | None = None,
        tolerance: float = 0.0,
    ) -> None:
        self._names = names
        self._channels = channels
        self._graph = graph
        self._tolerance = tolerance
        self._found: dict[str, TensorDifference] = {}

    def add(
        self, number: int, ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]
    ) -> None:
        """Compare what both sides have of an input; tensors that either lacks are left out.

        ValueError if dtypes or sizes of a tensor do not agree.
        """
        for name, node in self._names.items():
            if name in ours and name in theirs:
                before = self._found.get(name, TensorDifference(name, node, 0, 0, 0.0, None))
                mine, other = _alike(before, ours[name], theirs[name])
                self._found[name] = self._add(before, number, mine, other)

    def differences(self) -> tuple[TensorDifference, ...]:
        """Return one for each tensor that could be compared, in the order of the names."""
        return tuple(self._found[name] for name in self._names if name in self._found)

    def _add(
        self, before: TensorDifference, number: int, ours: np.ndarray, theirs: np.ndarray
    ) -> TensorDifference:
        compared = self._channels.get(before.name, np.True_)
        # Not a number equals itself here: bits are compared, not values.
        equal = (ours == theirs) | ((ours != ours) & (theirs != theirs)) | ~compared
        first = before.first
        if first is None and not equal.all():
            first = (number, *(int(i) for i in np.argwhere(~equal)[0]))
        where = np.broadcast_to(compared, ours.shape)
        elements = int(np.count_nonzero(where))
        largest, beyond, figures = before.largest, before.beyond, before.figures
        if ours.dtype.kind in "biuf":
            zero = self._zero_point(before.name)
            a, b = (side[where].astype(np.float64) - zero for side in (ours, theirs))
            gaps = np.where(equal[where], 0.0, np.abs(a - b))
            largest = max(largest, float(gaps.max(initial=0.0)))
            beyond += int(np.count_nonzero(~(gaps <= self._tolerance)))
            figures += Figures.of(a, b, gaps)
        else:
            beyond += int(np.count_nonzero(~equal))
        return TensorDifference(
            before.name,
            before.node,
            before.elements + elements,
            before.different + int(np.count_nonzero(~equal)),
            largest,
            first,
            before.left_out + ours.size - elements,
            beyond,
            figures,
            self._top1(before, ours, theirs),
        )

    def _zero_point(self, name: str) -> int:
        tensor = self._graph.tensors.get(name) if self._graph else None
        q = tensor.quantization if tensor else None
        return int(q.zero_point[0]) if q is not None and q.axis is None else 0

    def _top1(
        self, before: TensorDifference, ours: np.ndarray, theirs: np.ndarray
    ) -> tuple[int, int] | None:
        """Add vectors of classes: rows of a matrix, or all elements if they lie on one axis."""
        if self._graph is None or before.name not in self._graph.outputs:
            return None
        classes = ours.shape[-1] if ours.ndim == 2 else max(ours.shape, default=0)
        if classes < 2 or (ours.ndim != 2 and ours.size != classes):
            return None
        same, count = before.top1 or (0, 0)
        tops = [side.reshape(-1, classes).argmax(axis=1) for side in (ours, theirs)]
        return same + int(np.count_nonzero(tops[0] == tops[1])), count + len(tops[0])


def compare_tensors(
    names: Mapping[str, str],
    runs: Iterable[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]],
    channels: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> tuple[TensorDifference, ...]:
    """Compare our tensors with those of an oracle, for each input; see :class:`Comparer`.

    ValueError if dtypes or sizes of a tensor do not agree.
    """
    comparer = Comparer(names, channels)
    for number, (ours, theirs) in enumerate(runs):
        comparer.add(number, ours, theirs)
    return comparer.differences()


def _alike(
    before: TensorDifference, ours: np.ndarray, theirs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides in the same shape; raise ValueError if they are not of the same kind."""
    if ours.dtype != theirs.dtype or ours.size != theirs.size:
        raise ValueError(
            f"Tensor {before.name!r} is {ours.dtype} of shape {list(ours.shape)} here and "
            f"{theirs.dtype} of shape {list(theirs.shape)} there"
        )
    return np.asarray(ours), np.reshape(theirs, ours.shape)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
