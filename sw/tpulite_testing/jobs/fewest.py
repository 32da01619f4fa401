"""The fewest operators or layers of a network with which a check still fails in the same way."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import Layer, LayerGraph
from tpulite_testing.plain.network import Network, Step

__all__ = ["fewest", "graph_of", "layers_of", "network_of"]

T = TypeVar("T")
Made = TypeVar("Made")


def fewest(
    parts: Sequence[T], make: Callable[[Sequence[T]], Made], check: Callable[[Made], object]
) -> Made:
    """Leave out parts, one at a time, as long as the check of what is made of the others fails.

    Parameters
    ----------
    parts : sequence
        In the order in which they run.
    make : callable
        Makes a network of some of them.
    check : callable
        Raises an error if it finds one. One of another type or from another place is another
        error: that of a part that cannot stand alone, say.

    Returns
    -------
    Made
        The smallest network found; no part more can be left out of it.

    Raises
    ------
    ValueError
        If the check does not fail with all parts.
    """

    def failure(some: Sequence[T]) -> tuple[type[Exception], str, str] | None:
        try:
            check(make(some))
        except Exception as error:  # whatever it is, it is compared
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return type(error), frame.filename, frame.name
        return None

    wanted = failure(parts)
    if wanted is None:
        raise ValueError("It does not fail any more")
    left, i = list(parts), len(parts) - 1
    while i >= 0:
        # The last ones first: what is behind the culprit goes at once.
        some = [*left[:i], *left[i + 1 :]]
        if some and failure(some) == wanted:
            left, i = some, len(left) - 1
        i -= 1
    return make(left)


def graph_of(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """Return the graph of some nodes; what others would compute is an input."""
    pairs = [(node.inputs, node.outputs) for node in nodes]
    activations = {name for name, tensor in graph.tensors.items() if tensor.data is None}
    inputs, outputs = _ends(pairs, graph.inputs, graph.outputs, activations)
    return replace(graph, nodes=tuple(nodes), inputs=inputs, outputs=outputs, source=None)


def layers_of(graph: LayerGraph, layers: Sequence[Layer]) -> LayerGraph:
    """Return the graph of some layers; what others would compute is an input."""
    pairs = [(layer.inputs, (layer.output,)) for layer in layers]
    activations = graph.activations.keys() - graph.constants.keys()
    inputs, outputs = _ends(pairs, graph.inputs, graph.outputs, activations)
    used = {*inputs, *outputs, *(name for ends in pairs for names in ends for name in names)}
    return replace(
        graph,
        layers=tuple(layers),
        activations={name: each for name, each in graph.activations.items() if name in used},
        inputs=inputs,
        outputs=outputs,
        constants={name: each for name, each in graph.constants.items() if name in used},
        unsigned=graph.unsigned & {*inputs, *outputs},
    )


def network_of(network: Network, steps: Sequence[Step]) -> Network:
    """Return the network of some steps; what others would compute is an input."""
    pairs = [(step.inputs, step.outputs) for step in steps]
    inputs, outputs = _ends(pairs, network.inputs, network.outputs, network.values)
    used = {*inputs, *(name for _, names in pairs for name in names)}
    values = {name: each for name, each in network.values.items() if name in used}
    return replace(network, steps=tuple(steps), values=values, inputs=inputs, outputs=outputs)


def _ends(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]],
    inputs: Sequence[str],
    outputs: Sequence[str],
    activations: Iterable[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what some operators need, and what is computed and is an output or not read."""
    activations = set(activations)
    read = dict.fromkeys(name for names, _ in pairs for name in names if name in activations)
    made = dict.fromkeys(name for _, names in pairs for name in names)
    needed = [name for name in dict.fromkeys((*inputs, *read)) if name in read and name not in made]
    given = [name for name in dict.fromkeys((*outputs, *made)) if name in made]
    return tuple(needed), tuple(name for name in given if name in outputs or name not in read)
