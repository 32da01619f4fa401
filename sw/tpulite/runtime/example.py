"""One drawn input of a network and what comes out: a check for whoever runs its programs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.golden.timing.predict import program_cycles
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.states import States

EXAMPLE_SEED = 2024
"""Of the inputs of every example."""


@dataclass(frozen=True, eq=False)
class Example:
    """An input, and what a network makes of it by its definition."""

    #: By name, in the file's shapes and dtypes.
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    #: By name of the state, what it holds behind this run, which is the first.
    states: Mapping[str, np.ndarray]
    #: By name, the other inputs and outputs of programs: so each program can be run alone, without
    #: the parts of the network that run on the CPU.
    borders: Mapping[str, np.ndarray]
    #: Of each program by the cycle model, with the reference memory; None if not predicted.
    cycles: tuple[int, ...] | None


def draw_example(model: Model, *, predicts: bool = False) -> Example | None:
    """Draw an input of a network by :data:`EXAMPLE_SEED`; None if a library refuses it.

    Parameters
    ----------
    predicts : bool
        Whether to predict its cycles, too, which takes about a quarter of a compilation's time.
    """
    inputs = random_inputs(model.graph, 1, EXAMPLE_SEED)
    state = States(model.graph)
    try:
        found = model.reference(inputs, state=state)
    except ValueError:
        return None
    outputs = {name: model.value(name, found) for name in model.graph.outputs}
    ends = {spec.name for program in model.programs for spec in (*program.inputs, *program.outputs)}
    inner = ends & model.graph.tensors.keys() - inputs.keys() - outputs.keys()
    borders = {name: model.value(name, found) for name in sorted(inner)}
    cycles = tuple(map(program_cycles, model.programs)) if predicts else None
    return Example(inputs, outputs, dict(state), borders, cycles)
