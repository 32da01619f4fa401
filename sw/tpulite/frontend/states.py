"""Networks whose outputs are their inputs in the next run."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Graph, State
from tpulite.graph.passes.rewrite import same_meaning
from tpulite.near import no_such


def with_states(graph: Graph, pairs: Sequence[tuple[str, str]]) -> Graph:
    """Return a network that keeps some of its outputs for inputs of the next run.

    States have the names of the inputs, and begin as zeros: of integers, whatever their zero point
    is, as the file's library would be given them. Tensors of states are no longer inputs; they are
    no longer outputs either, unless no other output is left.

    Parameters
    ----------
    graph : Graph
        The network, not simplified.
    pairs : sequence of (str, str)
        An output and the input that it becomes.

    Raises
    ------
    ValueError
        If there is no such output or input, an input is named twice, or shape, dtype or
        quantization of the two differ.
    """
    states = []
    for after, before in pairs:
        _check_name("output", after, graph.outputs)
        _check_name("input", before, graph.inputs)
        x, y = graph.tensors[before], graph.tensors[after]
        kinds = [f"{tensor.dtype} {list(tensor.shape)}" for tensor in (y, x)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"output {after!r} is {kinds[0]}, and input {before!r} is {kinds[1]}")
        if x.quantization and y.quantization and not same_meaning(x, y):
            raise ValueError(f"output {after!r} and input {before!r} have different scales")
        if before in {state.name for state in states}:
            raise ValueError(f"input {before!r} is given two states")
        states.append(State(before, before, after, np.zeros(x.shape, x.dtype)))
    kept, held = {state.output for state in states}, {state.input for state in states}
    return replace(
        graph,
        inputs=tuple(name for name in graph.inputs if name not in held),
        outputs=tuple(name for name in graph.outputs if name not in kept) or graph.outputs,
        states=(*graph.states, *states),
    )


def _check_name(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(no_such(f"{what} to use as a state", name, known))
