"""Chains of nodes that only move elements, joined to one pick of positions of each axis."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tpulite.graph.data_movement import DATA_MOVEMENT, places_of
from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.rewrite import (
    count_uses,
    rebuild,
    remove_dead_nodes,
    same_meaning,
    unique_name,
)

_MOVES = (
    *("reshape", "transpose", "tile", "broadcast_to", "pick", "slice", "strided_slice"),
    *("gather", "reverse"),
)
"""Operators of one tensor and constants."""

_MOST = 1 << 22
"""Elements of larger tensors are not followed."""

Indices = tuple[tuple[int, ...], ...]


def join_moves(graph: Graph) -> Graph:
    """Let one pick do what a chain of moves does, where it picks positions of each axis.

    A shuffle of channels is such a chain (reshape, transpose, reshape), a resize to the nearest
    pixel another (reshape, tile, reshape). Tensors between are of more axes than machines have.
    Chains that part, such as a shuffle whose halves are gathered, are joined to one pick each.
    """
    graph = remove_dead_nodes(graph)  # reshapes that others have skipped read moves, too
    uses = count_uses(graph)
    makers = {name: node for node in graph.nodes for name in node.outputs}
    tensors = dict(graph.tensors)
    goes_on = {node.inputs[0] for node in graph.nodes if _moves(graph, node)}
    replaced: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if any(uses[name] == 1 and name in goes_on for name in node.outputs):
            continue
        chain = _chain(graph, node, makers)
        shared = [i for i, each in enumerate(chain) if i and uses[each.inputs[0]] > 1]
        own = chain[max(shared, default=0) :]
        joined = _joined(graph, chain, tensors) if shared else []
        if [each.op for each in joined] != ["pick"]:  # the others compute what is shared
            joined = _joined(graph, own, tensors) if own else []
        elif joined[0].name not in {each.name for each in own}:  # of a move that others need
            joined = [replace(joined[0], name=node.name)]
        if joined:
            replaced |= {each.name: [] for each in own} | {node.name: joined}
    nodes = [new for node in graph.nodes for new in replaced.get(node.name, [node])]
    return remove_dead_nodes(rebuild(graph, nodes, tensors))


def _chain(graph: Graph, last: Node, makers: dict[str, Node]) -> list[Node]:
    """Return the moves that end in a node, each the input of the next; none if it is none."""
    chain: list[Node] = []
    node: Node | None = last
    while node is not None and _moves(graph, node):
        chain.insert(0, node)
        node = makers.get(node.inputs[0])
    return chain


def _moves(graph: Graph, node: Node) -> bool:
    if node.op not in _MOVES or node.op not in DATA_MOVEMENT[graph.format]:
        return False
    if len(node.outputs) != 1 or "" in node.inputs:
        return False
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    constants = [graph.tensors[name] for name in node.inputs[1:]]
    sizes = [math.prod(each.shape) for each in (x, y)]
    return (
        same_meaning(x, y)
        and x.data is None
        and "object" not in (x.dtype, y.dtype)
        and min(sizes) > 0
        and max(sizes) <= _MOST
        and all(each.data is not None for each in constants)
    )


def _joined(graph: Graph, chain: Sequence[Node], tensors: dict[str, Tensor]) -> list[Node]:
    """Return a pick and reshapes that do the same as a chain; none if there are none."""
    x = graph.tensors[chain[0].inputs[0]]
    numbers = np.arange(math.prod(x.shape)).reshape(x.shape)
    best: list[Node] = []
    for index, node in enumerate(chain):
        values = [numbers, *(graph.tensors[name].data for name in node.inputs[1:])]
        output = graph.tensors[node.outputs[0]]
        try:
            (numbers,) = DATA_MOVEMENT[graph.format][node.op](node, values, [output])  # type: ignore[arg-type]
        except (ValueError, IndexError, TypeError):
            break
        if numbers.shape != output.shape:
            break
        labels = [each for each in chain[: index + 1] if each.op != "reshape"]
        if index and labels and (joined := _as_pick(numbers, x, output, labels[-1], tensors)):
            best = [*joined, *chain[index + 1 :]]
    return best


def _as_pick(
    numbers: np.ndarray, x: Tensor, y: Tensor, label: Node, tensors: dict[str, Tensor]
) -> list[Node]:
    """Return a pick, and a reshape if one is needed, that make ``y`` of elements of ``x``."""
    ends = {"inputs": (x.name,), "outputs": (y.name,)}
    if numbers.size == math.prod(x.shape) and not np.any(np.diff(numbers.reshape(-1)) != 1):
        return [replace(label, op="reshape", attributes={"shape": y.shape}, **ends)]
    for shape in dict.fromkeys((y.shape, x.shape)):
        if len(shape) != len(x.shape) or math.prod(shape) != numbers.size:
            continue
        indices = _indices(numbers.reshape(shape), x.shape)
        if indices is None:
            continue
        pick = replace(label, op="pick", attributes={"indices": indices}, **ends)
        if shape == y.shape:
            return [pick]
        picked = replace(y, name=unique_name(f"{y.name}/picked", tensors), shape=shape)
        tensors[picked.name] = picked
        shaped = replace(
            label,
            name=f"{label.name}/shape",
            op="reshape",
            inputs=(picked.name,),
            outputs=(y.name,),
            attributes={"shape": y.shape},
        )
        return [replace(pick, outputs=(picked.name,)), shaped]
    return []


def _indices(numbers: np.ndarray, shape: tuple[int, ...]) -> Indices | None:
    """Return the positions of each axis that a tensor of element numbers picks, if it does so."""
    places = places_of(numbers, shape)
    indices = []
    for axis, place in enumerate(places):
        along = np.moveaxis(place, axis, 0).reshape(place.shape[axis], -1)
        if np.any(along != along[:, :1]):
            return None
        indices.append(tuple(along[:, 0].tolist()))
    return tuple(indices)
