"""Windows of ONNX Runtime on floats, as calls of C that adds in the same order.

The order in which a sum of floats is added is that of ONNX Runtime's kernels. Some of them are
chosen by the CPU, so results of the library are compared with ours when a network is exported, and
must be the same.

- average pooling of bytes (contrib_ops/cpu/quantization/qlinear_pool.cc) goes row by row; of floats
  it adds sums of columns (core/mlas/lib/pooling.cpp) or, in blocks of channels, goes row by row
- linear interpolation (core/providers/cpu/tensor/upsample.cc) adds four weighted neighbors
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tpulite.export.float_ends import Ends, has_ends
from tpulite.export.host_steps import HostCall, PlannedCall
from tpulite.export.trials import Trial
from tpulite.graph.graph import Node

Floats = NDArray[np.float32]


def pooled(trial: Trial, node: Node) -> PlannedCall | None:
    """Plan an average of windows of bytes or floats [images, height, width, channels]."""
    x, y = trial.graph.tensors[node.inputs[0]], trial.graph.tensors[node.outputs[0]]
    pools = node.source in ("AveragePool", "QLinearAveragePool") and node.op == "average_pool"
    if not pools or node["activation"] != "none" or len(x.shape) != 4 or not has_ends(x, y):
        return None

    def taps(axis: int) -> _Taps:
        size, step, pad = (node[name][axis] for name in ("window", "stride", "padding"))
        counts_all = node["count_include_pad"]
        return _window(x.shape[axis + 1], y.shape[axis + 1], (size, step, pad), counts_all)

    windows = _Windows(x.shape, taps(0), taps(1))
    orders = (True, False) if x.dtype == "float32" else (False,)
    return PlannedCall(
        (x.name,), lambda: windows.call(Ends(trial, x, y, adds_zero_point=True), orders)
    )


def _window(extent: int, count: int, window: tuple[int, int, int], counts_all: bool) -> "_Taps":
    """Return the taps of windows (size, step, padding); what lies outside weighs nothing."""
    size, step, pad = window
    places = np.arange(count)[:, None] * step - pad + np.arange(size)
    inside = (places >= 0) & (places < extent)
    sizes = np.full(count, size) if counts_all else inside.sum(1)
    places = np.clip(places, 0, extent - 1)
    return _Taps(places, inside.astype(np.float32), sizes.astype(np.float32))


def resized(trial: Trial, node: Node) -> PlannedCall | None:
    """Plan a linear interpolation of floats [batch, channels, height, width]."""
    x, y = trial.graph.tensors[node.inputs[0]], trial.graph.tensors[node.outputs[0]]
    places = dict(node.attributes.get("places", ()))
    if not places or not x.dtype == y.dtype == "float32" or len(x.shape) != 4 or {0, 1} & {*places}:
        return None
    taps = [_between(x.shape[axis], places.get(axis, range(x.shape[axis]))) for axis in (2, 3)]
    windows = _Windows((math.prod(x.shape[:2]), *x.shape[2:], 1), *taps)
    return PlannedCall((x.name,), lambda: windows.call(Ends(trial, x, y), (False,)))


def _between(extent: int, places: Sequence[float]) -> "_Taps":
    """Return the two neighbors of each place and their weights: a half each at the last pixel."""
    x = np.clip(np.asarray(places, np.float32), 0, np.float32(extent - 1))
    first = x.astype(np.int64)
    second = np.minimum(first + 1, extent - 1)
    weights = np.stack([np.abs(x - second), np.abs(x - first)], 1).astype(np.float32)
    weights[first == second] = 0.5
    return _Taps(np.stack([first, second], 1), weights, np.ones(len(x), np.float32))


@dataclass(frozen=True, eq=False)
class _Taps:
    """What is added up along an axis: places and weights [results, taps], and a divisor."""

    places: NDArray[np.int64]
    weights: Floats
    sizes: Floats


@dataclass(frozen=True, eq=False)
class _Windows:
    """Weighted sums of windows of [images, height, width, channels]."""

    shape: tuple[int, ...]
    rows: _Taps
    columns: _Taps

    def call(self, ends: Ends, orders: tuple[bool, ...]) -> HostCall:
        """Return the call in the first order of sums (by columns?) that the library has."""
        rows, columns = self.rows, self.columns
        found = [order for order in orders if ends.same(partial(self._sums, by_columns=order))]
        if not found:
            raise ends.other_order()
        pointers, fields = {}, {}
        for name, taps in (("row", rows), ("column", columns)):
            fields |= {f"{name}s": len(taps.places), f"{name}_taps": taps.places.shape[1]}
            pointers |= {
                f"{name}_places": taps.places.astype(np.uint32),
                f"{name}_weights": taps.weights,
                f"{name}_sizes": taps.sizes,
            }
        names = ("images", "height", "width", "channels")
        fields |= dict(zip(names, self.shape, strict=True)) | {"by_columns": int(found[0])}
        return ends.call("tpulite_pool", "tpulite_window_sums", fields, pointers)

    def _sums(self, x: Floats, *, by_columns: bool) -> Floats:
        x, (rows, columns) = x.reshape(self.shape), (self.rows, self.columns)
        pairs = [
            (r, c) for r in range(rows.places.shape[1]) for c in range(columns.places.shape[1])
        ]
        pairs.sort(key=(lambda pair: pair[::-1]) if by_columns else None)
        total = part = np.float32(0)
        for r, c in pairs:
            weights = columns.weights[None, :, c] * rows.weights[:, None, r]
            taken = x[:, rows.places[:, r]][:, :, columns.places[:, c]]
            part = part + weights[..., None] * taken
            if not by_columns or r == rows.places.shape[1] - 1:
                total, part = total + part, np.float32(0)
        return total / (rows.sizes[:, None] * columns.sizes)[..., None]
