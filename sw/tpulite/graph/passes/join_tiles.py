"""Rows and columns that a file repeats by tiles of another rank: strided slices of one tensor."""

import math
from itertools import accumulate

import numpy as np

from tpulite.graph.data_movement import DATA_MOVEMENT
from tpulite.graph.graph import Graph, Node
from tpulite.graph.passes.remove_dead_nodes import remove_dead_nodes
from tpulite.graph.passes.rewrite import count_uses, rebuild, same_meaning

__all__ = ["join_tiles"]

_MOST = 1 << 24
"""Elements of larger tensors are not counted."""

Indices = tuple[tuple[int, ...], ...]


def join_tiles(graph: Graph) -> Graph:
    """Replace reshapes and tiles in a row by one ``pick``, where they repeat whole rows or columns.

    Keras writes a nearest resize so: each axis gets another one of 1 behind it, which is tiled and
    then joined with it. The tensors between have five axes, the result four again.
    """
    graph = remove_dead_nodes(graph)  # reshapes that others have skipped read tiles, too
    uses = count_uses(graph)
    readers = {name: node for node in graph.nodes for name in node.inputs[:1]}
    replaced: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.op not in ("reshape", "tile") or node.name in replaced:
            continue
        chain = [node]
        while uses[chain[-1].outputs[0]] == 1:
            after = readers.get(chain[-1].outputs[0])
            if after is None or after.op not in ("reshape", "tile"):
                break
            chain.append(after)
        replaced |= _joined(graph, chain)
    return rebuild(graph, (new for node in graph.nodes for new in replaced.get(node.name, [node])))


def _joined(graph: Graph, chain: list[Node]) -> dict[str, list[Node]]:
    """Return what takes the places of the longest beginning of a chain that is one ``pick``."""
    source = graph.tensors[chain[0].inputs[0]]
    tensors = [graph.tensors[node.outputs[0]] for node in chain]
    tiles = [*accumulate(node.op == "tile" for node in chain)]
    if max(math.prod(tensor.shape) for tensor in (source, *tensors)) > _MOST:
        return {}
    numbers = np.arange(math.prod(source.shape)).reshape(source.shape)
    best: tuple[int, Indices] | None = None
    for index, (node, tensor) in enumerate(zip(chain, tensors, strict=True)):
        counts = [graph.tensors[name].data for name in node.inputs[1:]]
        if not same_meaning(source, tensor) or (node.op == "tile" and counts[0] is None):
            break
        values = [numbers, *(each for each in counts if each is not None)]
        (numbers,) = DATA_MOVEMENT["tflite"][node.op](node, values, [tensor])
        indices = _picked(numbers, source.shape) if index and tiles[index] else None
        if indices is not None:
            best = index, indices
    if best is None:
        return {}
    last = chain[best[0]]
    pick = Node(last.name, "pick", (source.name,), last.outputs, {"indices": best[1]}, last.source)
    return {node.name: [] for node in chain[: best[0]]} | {last.name: [pick]}


def _picked(numbers: np.ndarray, shape: tuple[int, ...]) -> Indices | None:
    """Return which positions of each axis a tensor has, of one whose elements have numbers."""
    if numbers.ndim != len(shape) or not numbers.size:
        return None
    indices = []
    for axis, places in enumerate(np.unravel_index(numbers, shape)):
        line = places[tuple(slice(None) if i == axis else 0 for i in range(numbers.ndim))]
        indices.append(tuple(line.tolist()))
    whole = np.arange(math.prod(shape)).reshape(shape)[np.ix_(*indices)]
    return tuple(indices) if np.array_equal(numbers, whole) else None
