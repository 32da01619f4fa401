"""Comparing a network with an oracle, tensor by tensor, on many inputs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.runtime.comparison import TensorDifference, compare_tensors
from tpulite.runtime.inputs import check_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.oracles import Oracle

__all__ = ["Comparison", "compare_model"]


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
        One for each tensor that both have.
    """

    network: str
    inputs: int
    tensors: tuple[TensorDifference, ...]

    @property
    def different(self) -> tuple[TensorDifference, ...]:
        """Tensors of which a bit differs, in the order in which they are computed."""
        return tuple(tensor for tensor in self.tensors if tensor.different)

    @property
    def elements(self) -> int:
        """How many elements were compared."""
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def same(self) -> bool:
        """Whether every bit is the same."""
        return not self.different

    def __str__(self) -> str:
        found = f"{len(self.different)} tensors differ" if self.different else "every bit the same"
        return (
            f"{self.network}: {len(self.tensors)} tensors of {self.inputs} inputs, "
            f"{self.elements:,} elements: {found}"
        )


def compare_model(
    model: Model,
    oracle: Oracle,
    inputs: np.ndarray | Mapping[str, np.ndarray],
    *,
    limit: int | None = None,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Comparison:
    """Compare what a network gives by its definition with what an oracle gives.

    Parameters
    ----------
    model : Model
        The network.
    oracle : callable
        Returns tensors by name for one input.
    inputs : ndarray or mapping of str to ndarray
        As for :meth:`tpulite.runtime.model.Model.run`.
    limit : int, optional
        How many of them at most.
    track : callable
        Passes their numbers on, to show progress.

    Raises
    ------
    ValueError
        If inputs do not fit the network, dtypes or shapes of a tensor do not agree, or there is no
        tensor that both have.
    """
    checked, count = check_inputs(model.graph, inputs)
    count = min(count, limit or count)

    def pairs() -> Iterator[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]]:
        for number in track(range(count)):
            values = {name: array[number, ...] for name, array in checked.items()}
            yield model.reference(values, simplified=True), oracle(values)

    names = {name: node.name for node in model.graph.nodes for name in node.outputs}
    tensors = compare_tensors(names, pairs(), model.known_channels())
    if not tensors:
        raise ValueError(f"There is no tensor that both {model.graph.name} and the oracle have")
    return Comparison(model.graph.name, count, tensors)
