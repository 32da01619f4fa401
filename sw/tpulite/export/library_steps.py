"""Operators that a library runs on the CPU, as calls of C functions with tables of its results."""

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tpulite.export.float_sums import summed
from tpulite.export.float_windows import pooled, resized
from tpulite.export.host_steps import (
    HOST_CALLS,
    HostCall,
    PlannedCall,
    along_axis,
    host_call,
    stack_calls,
)
from tpulite.export.trials import BYTES, Trial
from tpulite.graph.data_movement import DATA_MOVEMENT
from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import FUNCTIONS
from tpulite.quant.own import is_own, settled_pair
from tpulite.quant.partition import HostSegment

_OF_ONE_NUMBER = FUNCTIONS | {"dequantize"}

_PAIRS = ("add", "sub", "mul")
_AVERAGES = ("QLinearGlobalAveragePool", "QLinearAveragePool")
"""Means that are computed from integer sums; others add floats."""

_MOST_EXCEPTIONS = 4096
"""Pairs of bytes that a table may list beside its formula: 16 kB of constants."""


def planned_calls(
    segment: HostSegment, graph: Graph, exact: Exactness
) -> list[tuple[Node, PlannedCall | None]]:
    """Return the calls that compute a segment, in order, and None for what no function computes.

    What only serves operators that are computed together with others is left out.
    """
    planned, needed = [], set(segment.outputs)
    for node in reversed(segment.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        if node.op == "stack":
            calls = stack_calls(node, graph)
            needed.update(node.inputs)
            planned += [(node, call) for call in reversed(calls)]
            continue
        call = library_call(node, graph, exact)
        if call is None and node.op in HOST_CALLS and is_own(node, graph, exact):
            given = tuple(x for x in node.inputs if graph.tensors[x].data is None)
            call = PlannedCall(given[:2], partial(host_call, node, graph, exact))
        call = call or moved(node, graph)
        needed.update(node.inputs if call is None else call.reads)
        planned.append((node, call))
    return planned[::-1]


def library_call(node: Node, graph: Graph, exact: Exactness) -> PlannedCall | None:
    """Return the call that computes a node as its library does.

    Making it runs the library; that there is one is known at once. None if no function computes
    the node.
    """
    if graph.source is None or len(node.outputs) != 1:
        return None
    if node.op in FUNCTIONS:
        return _function(node, graph, exact)
    if node.op == "quantize":
        return softmax_of_bytes(node, graph, exact)
    trial = Trial.of(graph, exact, node)
    if not trial.is_possible:
        return None
    tensors = [graph.tensors[name] for name in node.inputs if name]
    y = graph.tensors[node.outputs[0]]
    if all(map(_has_bytes, (*tensors, y))):
        pair = node.op in _PAIRS and len(tensors) == 2
        pair = pair and (exact.ort or settled_pair(node, graph, exact) is not None)
        if pair and (order := _full_first(tensors, y)):
            reads = order[0].name, order[1].name
            return PlannedCall(reads, lambda: _pair(trial, *order, y))
        if node.source in _AVERAGES and node.op == "mean" and y.shape[-1] == tensors[0].shape[-1]:
            return PlannedCall(node.inputs[:1], lambda: _average(trial, tensors[0], y))
    if not exact.ort:
        return None
    return pooled(trial, node) or resized(trial, node) or summed(trial, node)


def _function(node: Node, graph: Graph, exact: Exactness) -> PlannedCall | None:
    """Plan a table of functions of one byte, which may have been turned into a float."""
    x, y, nodes = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]], [node]
    makers = {name: each for each in graph.nodes for name in each.outputs}
    while x.dtype == "float32" and (maker := makers.get(x.name)) and maker.op in _OF_ONE_NUMBER:
        x, nodes = graph.tensors[maker.inputs[0]], [maker, *nodes]
    whole = all(len([name for name in each.inputs if name]) == 1 for each in nodes)
    whole = whole and math.prod(x.shape) == math.prod(y.shape) and _has_bytes(x)
    if not whole or not (y.dtype == "float32" or _has_bytes(y)):
        return None
    trial, count = Trial.of(graph, exact, *nodes), math.prod(y.shape)

    def make() -> HostCall:
        values = trial.table()
        if y.dtype == "float32":
            fields = {"count": count, "rest": 0, "values": values}
            return HostCall("tpulite_dequantize", "tpulite_dequantization", fields)
        fields = {"count": count, "values": values.view(np.uint8)}
        return HostCall("tpulite_look_up", "tpulite_table", fields)

    return PlannedCall((x.name,), make)


def _has_bytes(tensor: Tensor) -> bool:
    q = tensor.quantization
    return tensor.dtype in ("int8", "uint8") and q is not None and q.axis is None


def _count(y: Tensor) -> dict[str, object]:
    return {"count": math.prod(y.shape)}


def _full_first(tensors: list[Tensor], y: Tensor) -> tuple[Tensor, Tensor, int] | None:
    """Return the operand that has the result's shape, one that repeats, and how often in a row."""
    for full, other in (tensors, tensors[::-1]):
        extents = (1,) * (len(y.shape) - len(other.shape)) + other.shape
        wide = [axis for axis, extent in enumerate(extents) if extent > 1]
        block = slice(wide[0], wide[-1] + 1) if wide else slice(0, 0)
        repeats = len(extents) == len(y.shape) and extents[block] == y.shape[block]
        if full.shape == y.shape and full.data is None and full.name != other.name and repeats:
            return full, other, math.prod(y.shape[block.stop :])
    return None


def _pair(trial: Trial, full: Tensor, other: Tensor, inner: int, y: Tensor) -> HostCall:
    """Return a formula of integers, and the pairs of bytes of which the library makes another."""
    found = trial.pairs(full, other, inner).view(y.dtype).astype(np.int64)
    used = np.ones(BYTES, bool)
    if other.data is not None:
        used = np.isin(np.arange(BYTES), other.data.reshape(-1).view(np.uint8))
    terms, is_product = _terms(trial.nodes[0], full, other, y)
    a, b, shift = terms
    assert y.quantization is not None
    offset = int(y.quantization.zero_point[0])
    low, high = int(found[:, used].min()), int(found[:, used].max())
    value = a[:, None] * b if is_product else a[:, None] + b
    formula = np.clip(_half_even(value + (offset << shift), shift), low, high)
    different = np.argwhere((formula != found) & used)
    if len(different) > _MOST_EXCEPTIONS:
        raise ValueError(
            f"{trial.named} cannot be exported: {len(different):,} pairs of bytes are no products "
            "or sums"
        )
    results = found[tuple(different.T)] & 0xFF
    listed = (different[:, 0] << 16 | different[:, 1] << 8 | results).astype(np.uint32)
    fields = _count(y) | {
        "period": math.prod(other.shape),
        "inner": inner,
        "is_product": int(is_product),
        "shift": shift,
        **{"offset": offset, "low": low, "high": high},
        "exception_count": len(listed),
        **{"a": a, "b": b},
    }
    pointers = {"exceptions": listed} if len(listed) else {}
    return HostCall("tpulite_pair", "tpulite_pair_tables", fields, pointers)


def _terms(
    node: Node, full: Tensor, other: Tensor, y: Tensor
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64], int], bool]:
    """Return terms or factors of each byte, the fractional bits, and whether it is a product."""
    assert y.quantization is not None
    scale, (a, b) = float(y.quantization.scale[0]), (_real(full), _real(other))
    if node.op == "mul":
        assert full.quantization is not None
        unit = float(full.quantization.scale[0])
        a, b = a / unit, b * (unit / scale)
        largest = np.abs(b).max()
    else:
        signs = {name: -1 if node.op == "sub" and i else 1 for i, name in enumerate(node.inputs)}
        a, b = a * signs[full.name] / scale, b * signs[other.name] / scale
        largest = np.abs(a).max() + np.abs(b).max()
    shift = max(0, min(30, 29 - math.ceil(math.log2(max(largest, 1.0)))))
    scaled = np.rint(b * 2.0**shift).astype(np.int64)
    if node.op == "mul":
        return (np.rint(a).astype(np.int64), scaled, shift), True
    return (np.rint(a * 2.0**shift).astype(np.int64), scaled, shift), False


def _real(tensor: Tensor) -> NDArray[np.float64]:
    """Return what each byte means."""
    assert tensor.quantization is not None
    return tensor.quantization.real(np.arange(BYTES, dtype=np.uint8).view(tensor.dtype))


def _half_even(value: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    """Return value / 2^shift, the nearest, of two the even one."""
    if not shift:
        return value
    quotient, half = value >> shift, 1 << (shift - 1)
    rest = value - (quotient << shift)
    return quotient + ((rest > half) | ((rest == half) & (quotient & 1 == 1)))


def _average(trial: Trial, x: Tensor, y: Tensor) -> HostCall:
    """Find the least sum of each result by bisection, of all results at once."""
    pixels, least = math.prod(x.shape) // x.shape[-1], int(np.iinfo(y.dtype).min)

    def levels(sums: NDArray[np.int64]) -> NDArray[np.int64]:
        return trial.averages(sums).view(y.dtype).astype(np.int64) - least

    top = pixels * (BYTES - 1)
    wanted, low, high = np.arange(1, BYTES), np.full(BYTES - 1, -1), np.full(BYTES - 1, top + 1)
    while (high - low > 1).any():
        middle = (low + high) >> 1
        reached = levels(np.clip(middle, 0, top)) >= wanted
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    tried = np.unique(np.concatenate([np.clip(high + d, 0, top) for d in (-1, 0)]))
    if (levels(tried) != np.searchsorted(high, tried, side="right")).any():
        raise ValueError(f"{trial.named} does not rise with its sum")
    fields: Mapping[str, object] = {
        "channels": x.shape[-1],
        "pixels": pixels,
        "flip": 0x80 if x.dtype == "int8" else 0,
        "least": least & 0xFF,
        "thresholds": high,
    }
    return HostCall("tpulite_average", "tpulite_average_sums", fields)


_WHOLE = 2**22
"""Below this, adding 2^23 in float32 and taking it away rounds to an integer."""

_RESULTS = 2048
"""Results at least that are compared with the library's."""


def softmax_of_bytes(node: Node, graph: Graph, exact: Exactness) -> PlannedCall | None:
    """Plan a softmax of bytes: dequantized, a softmax of floats, and quantized by ``node``."""
    makers = {name: each for each in graph.nodes for name in each.outputs}
    softmax = makers.get(node.inputs[0])
    if softmax is None or softmax.source != "QLinearSoftmax":
        return None
    floats = makers[softmax.inputs[0]]
    x, y = graph.tensors[floats.inputs[0]], graph.tensors[node.outputs[0]]
    assert x.quantization is not None and y.quantization is not None
    fields: dict[str, object] = along_axis(softmax, x)
    scale, count = np.float64(x.quantization.scale[0]), x.shape[softmax["axis"]]
    lift = np.log(np.finfo(np.float32).max / np.float32(count)) - 5  # so much may a sum be
    exps = np.exp((-np.arange(BYTES) + max(0.0, float(lift)) / scale) * scale).astype(np.float32)
    unit, zero_point = np.floor(np.float32(1) / y.quantization.scale[0]), y.quantization.zero_point
    trial = Trial(graph, exact, (floats, softmax, node))

    def computed(values: NDArray) -> NDArray:
        along = np.moveaxis(values.view(x.dtype).astype(np.int64), softmax["axis"], -1)
        parts = exps[along.max(-1, keepdims=True) - along]
        quotients = np.rint(parts * unit / np.cumsum(parts, -1, dtype=np.float32)[..., -1:])
        found = np.minimum(quotients + zero_point[0], np.iinfo(y.dtype).max).astype(y.dtype)
        return np.moveaxis(found, -1, softmax["axis"])

    def make() -> HostCall:
        if unit > _WHOLE:
            raise ValueError(f"{trial.named} cannot be exported: its scale is too small")
        rng, compute = np.random.default_rng(0), trial.opened()
        for _ in range(-(-_RESULTS // math.prod(x.shape))):
            drawn = rng.integers(0, rng.integers(2, BYTES + 1), x.shape).astype(np.uint8)
            if not np.array_equal(compute({x.name: drawn}), computed(drawn).reshape(-1)):
                raise ValueError(
                    f"{trial.named} cannot be exported: its library computes it otherwise"
                )
        more = {"zero_point": zero_point[0], "unit": unit, "exps": exps}
        return HostCall("tpulite_softmax_quotient", "tpulite_softmax_quotients", fields | more)

    return PlannedCall((x.name,), make)


_MOST_AXES = 8


def moved(node: Node, graph: Graph) -> PlannedCall | None:
    """Plan the call that computes a slice, a permutation or the like; None if it is none."""
    rule = DATA_MOVEMENT[graph.format].get(node.op)
    names = [name for name in node.inputs if name]
    given = [name for name in names if graph.tensors[name].data is None]
    if rule is None or len(given) != 1 or len(node.outputs) != 1:
        return None
    x, y = graph.tensors[given[0]], graph.tensors[node.outputs[0]]
    if x.dtype != y.dtype or x.dtype == "object":
        return None
    places = np.arange(np.prod(x.shape, dtype=np.int64)).reshape(x.shape)
    constants = {name: graph.tensors[name].data for name in names}
    values = [places if name == x.name else constants[name] for name in names]
    try:
        (found,) = rule(node, values, [y])  # type: ignore[arg-type]
    except ValueError:  # it computes, too: a bilinear resize between pixels
        return None
    strides = strided(found.reshape(-1))
    if strides is None:
        return None
    first, axes = strides
    size = np.dtype(x.dtype).itemsize
    fields = {
        "rank": len(axes),
        "element_bytes": size,
        "first": size * first,
        "extents": [extent for extent, _ in axes] or [1],
        "steps": [size * step for _, step in axes] or [0],
    }
    call = HostCall("tpulite_transpose", "tpulite_transposition", fields)
    return PlannedCall((x.name,), lambda: call)


def strided(places: NDArray[np.int64]) -> tuple[int, list[tuple[int, int]]] | None:
    """Return the first of places and, from the outermost axis on, extents and steps.

    None if they are no such grid of few axes.

    Examples
    --------
    >>> strided(np.array([3, 5, 13, 15]))
    (3, [(2, 10), (2, 2)])
    >>> strided(np.array([0, 1, 3])) is None
    True
    """
    axes: list[tuple[int, int]] = []
    while len(places) > 1:
        step = int(places[1] - places[0])
        other = np.flatnonzero(np.diff(places) != step)
        extent = int(other[0]) + 1 if len(other) else len(places)
        if len(axes) == _MOST_AXES or len(places) % extent or extent < 2:
            return None
        rows = places.reshape(-1, extent)
        if (rows != rows[:, :1] + step * np.arange(extent)).any():
            return None
        axes.append((extent, step))
        places = rows[:, 0]
    return (int(places[0]), axes[::-1]) if len(places) else None
