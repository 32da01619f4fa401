"""Comparing what users run with an oracle, tensor by tensor, on many inputs."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tpulite.counted import counted, tensors_differ
from tpulite.runtime.comparison import Comparer, TensorDifference
from tpulite.runtime.device import Device
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import ModelResults, Runner
from tpulite.runtime.oracles import Oracle
from tpulite.runtime.states import States

Values = Mapping[str, np.ndarray]
Track = Callable[[Iterable[int]], Iterable[int]]


@dataclass(frozen=True)
class Comparison:
    """What came of a comparison.

    Parameters
    ----------
    network : str
        The network.
    inputs : int
        How many inputs were compared.
    tensors : tuple of TensorDifference
        One for each tensor between the compiled programs and CPU parts, or that a CPU part
        computes, if the oracle shows it: the outputs, and some inside. What programs keep in
        SCRATCH is among the layers.
    layers : tuple of TensorDifference
        The same by the definition of the layers: one for each tensor that the oracle shows.
    left_out : mapping of str to str
        Tensors that were not compared, and why.
    known : mapping of str to str
        Tensors in which the oracle is known to be wrong, and how.
    """

    network: str
    inputs: int
    tensors: tuple[TensorDifference, ...]
    layers: tuple[TensorDifference, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)

    @property
    def different(self) -> tuple[TensorDifference, ...]:
        """Tensors of the program that differ by more than the tolerance, in their order."""
        return tuple(tensor for tensor in self.tensors if tensor.beyond)

    @property
    def different_layers(self) -> tuple[TensorDifference, ...]:
        """Tensors that differ by definition, in the order in which they are computed."""
        return tuple(tensor for tensor in self.layers if tensor.beyond)

    @property
    def elements(self) -> int:
        """How many elements of the program were compared."""
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def same(self) -> bool:
        """Whether no tensor differs by more than the tolerance, of the program or a layer."""
        return not self.different and not self.different_layers

    @property
    def explained(self) -> bool:
        """Whether all that differs is known to be a fault of the oracle."""
        differing = {*self.different, *self.different_layers}
        return not self.same and all(tensor.name in self.known for tensor in differing)

    def __str__(self) -> str:
        found = "every bit the same"
        if not self.same:
            found = tensors_differ(len(self.different))
        if self.different_layers:
            found += f", {len(self.different_layers)} by definition"
        inputs = counted(self.inputs, "input")
        return (
            f"{self.network}: {counted(len(self.tensors), 'tensor')} of {inputs}, "
            f"{self.elements:,} elements: {found}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, the figures computed."""
        return {
            "network": self.network,
            "inputs": self.inputs,
            "same": self.same,
            "tensors": [tensor.as_dict() for tensor in self.tensors],
            "layers": [tensor.as_dict() for tensor in self.layers],
            "left_out": dict(self.left_out),
            "known": dict(self.known),
        }

    def reasons(self) -> Counter[str]:
        """Return why tensors were not compared, and how many for each reason."""
        return Counter(self.left_out.values())


@dataclass(frozen=True)
class Comparing:
    """What is compared, and how."""

    device: str | Device = "golden"  #: Where the program runs.
    #: Difference that still counts as the same: in steps of integer tensors, in units of float
    #: tensors.
    tolerance: float = 0.0
    #: Inputs that follow each other, as frames of a sequence: states begin anew with each sequence.
    #: By default all inputs are one.
    frames: int | None = None
    track: Track = iter  #: Passes the numbers of runs on, to show progress.

    def begins(self, number: int) -> bool:
        """Tell whether an input is the first one of a sequence."""
        return number % self.frames == 0 if self.frames else number == 0


def compare_model(
    model: Model, oracle: Oracle, inputs: Sequence[Values], how: Comparing | None = None
) -> Comparison:
    """Compare what the compiled network gives on a device with what a library gives.

    The program is the one that users run. Beside it the library is compared with the definition of
    the layers, so that a difference has a place: the definition, or the compiler.

    Parameters
    ----------
    model : Model
        The network; it is compiled if it is not.
    inputs : sequence of mapping of str to ndarray
        Inputs by name, each in the graph's shapes and dtypes.
    how : Comparing, optional
        Where and how.

    Raises
    ------
    ValueError
        If the network cannot be compiled, the library refuses inputs, or dtypes or shapes of a
        tensor do not agree.
    """
    how = how or Comparing()
    names, channels, states = _names(model), model.known_channels(), States(model.graph)
    program, layers = (Comparer(names, channels, model.graph, how.tolerance) for _ in range(2))
    there: set[str] = set()
    for number, (values, kept) in enumerate(_runs(model, inputs, how)):
        if how.begins(number):
            oracle.reset()
            states.reset()
        theirs = oracle(values)
        there.update(theirs)
        program.add(number, kept, theirs)
        layers.add(number, model.reference(values, simplified=True, state=states), theirs)
    both = program.differences(), layers.differences()
    shown = {tensor.name for each in both for tensor in each}
    if oracle.hidden:
        shown &= set(model.graph.outputs)
    tensors, defined = (tuple(x for x in each if x.name in shown) for each in both)
    left_out = {name: _why(model, oracle, name, there) for name in names if name not in shown}
    name, count = model.graph.name, len(inputs)
    return Comparison(name, count, tensors, defined, left_out, oracle.known)


def compare_device(model: Model, inputs: Sequence[Values], how: Comparing) -> Comparison:
    """Compare a device with the definition of the layers, tensor by tensor.

    Programs that store every tensor show those that the program of the users keeps on chip.
    Arguments and errors are those of :func:`compare_model`.
    """
    comparer = Comparer(_names(model), model.known_channels(), model.graph, how.tolerance)
    debug, states = Runner(model, how.device, tensors=True), States(model.graph)
    for number, (values, kept) in enumerate(_runs(model, inputs, how)):
        if how.begins(number):
            debug.state.reset()
            states.reset()
        defined = model.reference(values, simplified=True, state=states)
        comparer.add(number, {**debug.run(values).tensors, **kept}, defined)
    return Comparison(model.graph.name, len(inputs), comparer.differences())


def _runs(
    model: Model, inputs: Sequence[Values], how: Comparing
) -> Iterator[tuple[Values, dict[str, np.ndarray]]]:
    """Yield each input, and the tensors that a run of the program keeps."""
    runner = Runner(model, how.device, keep=True)
    for start in how.track(range(0, len(inputs), runner.batch)):
        each = inputs[start : start + runner.batch]
        if how.begins(start):
            runner.state.reset()
        yield from zip(each, _split(runner.run(*each), len(each)), strict=True)


def _split(results: ModelResults, count: int) -> list[dict[str, np.ndarray]]:
    """Return the tensors of each input of a run."""
    tensors = {**results.tensors, **results.outputs}
    if count == 1:
        return [tensors]
    parts = {name: np.split(values, count) for name, values in tensors.items()}
    return [{name: each[i] for name, each in parts.items()} for i in range(count)]


def _names(model: Model) -> dict[str, str]:
    """Return the tensors that are computed, each with its node."""
    return {name: node.name for node in model.graph.nodes for name in node.outputs}


def _why(model: Model, oracle: Oracle, name: str, there: Collection[str]) -> str:
    """Return why a tensor was not compared, of which the oracle has shown some."""
    if oracle.hidden:
        return f"not exposed by the library: {oracle.hidden}"
    hosts = (host.segment for host in model.plan.hosts if host.segment.library)
    inside = {x for segment in hosts for node in segment.nodes for x in node.outputs}
    if name in inside and name not in model.graph.outputs:
        return "inside a part that the library runs on the CPU"
    if name in there:
        return "fused with others by the compiler, or reshaped"
    source = model.graph.source
    if source is None or name not in source.origins:
        return "not in the file"
    return "fused with others by the library"
