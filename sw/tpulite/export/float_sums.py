"""Sums and means of ONNX Runtime along axes, as calls of C that adds floats in the same order.

Eigen adds lanes of a row if these are the last axes of the file's tensor, and one row after the
other if they are the first ones. Along axes in the middle MLAS multiplies by a row of ones, four
products at a time, two or one at the end. What a CPU has otherwise is found by comparing results.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tpulite.export.float_ends import Ends, has_ends
from tpulite.export.host_steps import HostCall, PlannedCall
from tpulite.export.trials import BYTES, Trial
from tpulite.graph.graph import Node, Tensor

Floats = NDArray[np.float32]

_LANES = 4
_PRODUCTS = 4
_DRAWN = 40
"""Rows that are drawn for one whose result is nearly between two integers."""


def summed(trial: Trial, node: Node) -> PlannedCall | None:
    """Plan a sum or mean of bytes or floats along axes that are neighbors."""
    x, y = trial.graph.tensors[node.inputs[0]], trial.graph.tensors[node.outputs[0]]
    if node.source not in ("ReduceMean", "ReduceSum") or node.op not in ("mean", "sum"):
        return None
    axes = sorted(axis % len(x.shape) for axis in node["axes"])
    if not axes or axes[-1] - axes[0] != len(axes) - 1 or not has_ends(x, y):
        return None
    shape = tuple(
        math.prod(x.shape[part])
        for part in (slice(axes[0]), slice(axes[0], axes[-1] + 1), slice(axes[-1] + 1, None))
    )
    group = _group(trial, x, shape)
    if group is None:
        return None
    sums = _AxisSums(shape, group, np.float32(shape[1] if node.op == "mean" else 1))
    return PlannedCall((x.name,), lambda: sums.call(Ends(trial, x, y)))


def _group(trial: Trial, x: Tensor, shape: tuple[int, ...]) -> int | None:
    """Return how many elements ONNX Runtime adds before it adds them to others; 0 means lanes.

    That depends on which axes of the file's tensor these are; None if they are no neighbors.
    """
    assert trial.graph.source is not None
    origin, (outer, count, inner) = trial.graph.source.origins.get(x.name), shape
    if origin is None:
        return None
    results = np.broadcast_to(np.arange(outer * inner).reshape(outer, 1, inner), shape)
    places = np.broadcast_to(np.arange(count)[:, None], shape)
    results, places = (
        origin.to_file(each.reshape(x.shape)).reshape(-1) for each in (results, places)
    )
    lasts = 1 if count == 1 else int(np.argmax(places > 0))  # elements behind the axes
    if not (places == np.tile(np.repeat(np.arange(count), lasts), outer * inner // lasts)).all():
        return None
    if not (results.reshape(-1, count, lasts)[:, 0].reshape(-1) == np.arange(outer * inner)).all():
        return None
    return 0 if lasts == 1 else 1 if lasts == outer * inner else _PRODUCTS


@dataclass(frozen=True, eq=False)
class _AxisSums:
    """Sums of [outer, count, inner] along the middle axis, divided by a number."""

    shape: tuple[int, ...]
    group: int
    divisor: np.float32

    def call(self, ends: Ends) -> HostCall:
        """Return the call, if the library has the same results."""
        both = ends.x.dtype != "float32" and ends.y.dtype != "float32"
        if not ends.same(self._sums, partial(self._near_halves, ends) if both else None):
            raise ends.other_order()
        fields = dict(zip(("outer", "count", "inner"), self.shape, strict=True))
        fields |= {"group": self.group, "divisor": self.divisor}
        return ends.call("tpulite_sum", "tpulite_axis_sums", fields)

    def _sums(self, x: Floats) -> Floats:
        outer, count, inner = self.shape
        rows = np.moveaxis(x.reshape(self.shape), 1, 0).reshape(count, -1)
        if self.group:
            return _in_groups(rows, self.group) / self.divisor
        starts = np.minimum(-np.arange(outer * inner) * count % _LANES, count)
        result = np.zeros(outer * inner, np.float32)
        for start in range(_LANES):
            chosen = starts == start
            result[chosen] = _in_lanes(rows[:, chosen], start)
        return result / self.divisor

    def _near_halves(self, ends: Ends, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw bytes whose means or sums a last bit may decide."""
        outer, count, inner = self.shape
        assert ends.y.quantization is not None
        levels = rng.integers(0, BYTES, (_DRAWN * outer * inner, 1))
        rows = np.clip(levels + rng.integers(-9, 10, (len(levels), count)), 0, BYTES - 1)
        sums = ends.values[rows].sum(1, dtype=np.float64) / self.divisor
        scaled = sums / ends.y.quantization.scale[0] + ends.y.quantization.zero_point[0]
        limits = np.iinfo(ends.y.dtype)
        outside = (scaled < limits.min) | (scaled > limits.max)
        order = np.argsort(np.abs(scaled % 1 - 0.5) + outside)[: outer * inner]
        return np.moveaxis(rows[order].reshape(outer, inner, count), 2, 1)


def _in_groups(rows: Floats, size: int) -> Floats:
    """Add rows in groups of a size; the last groups are smaller by powers of two."""
    total = None
    while len(rows):
        while size > len(rows):
            size //= 2
        part = np.cumsum(rows[:size], 0, dtype=np.float32)[-1]
        total, rows = part if total is None else total + part, rows[size:]
    assert total is not None
    return total


def _in_lanes(rows: Floats, start: int) -> Floats:
    """Add rows in lanes from one of them on, as C does."""
    lanes = (len(rows) - start) // _LANES
    if lanes < 1:
        return _in_groups(rows, 1)
    end = start + lanes * _LANES
    first, *more = rows[start:end].reshape(lanes, _LANES, -1)
    if more:
        second, *pairs = more if lanes % 2 == 0 else more[:-1]
        for a, b in zip(pairs[::2], pairs[1::2], strict=True):
            first, second = first + a, second + b
        first = first + second
        if lanes % 2:
            first = first + more[-1]
    total = (first[0] + first[2]) + (first[1] + first[3])
    for row in (*rows[:start], *rows[end:]):
        total = total + row
    return total
