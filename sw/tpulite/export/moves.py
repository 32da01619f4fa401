"""Operators that only move elements, as copies of a tensor in strides."""

import numpy as np
from numpy.typing import NDArray

from tpulite.export.calls import HostCall, PlannedCall
from tpulite.graph.data_movement import DATA_MOVEMENT
from tpulite.graph.graph import Graph, Node

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
