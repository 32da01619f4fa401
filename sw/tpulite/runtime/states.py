"""What a network keeps from run to run."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tpulite.graph.graph import Graph


class States(Mapping[str, np.ndarray]):
    """Values of a network's states by name; each may be set, and all begin anew by ``reset``.

    Parameters
    ----------
    graph : Graph
        The network. Without states there is nothing here, and nothing to do.
    """

    def __init__(self, graph: Graph) -> None:
        self._states = {state.name: state for state in graph.states}
        self._first = {name: state.initial for name, state in self._states.items()}
        self._values: dict[str, np.ndarray] = {}
        self.reset()

    def reset(self) -> None:
        """Go back to the values before the first run."""
        self._values = {name: first.copy() for name, first in self._first.items()}

    def begin(self, first: Mapping[str, np.ndarray]) -> None:
        """Begin with other values, now and after each reset; errors are those of setting them."""
        for name, value in first.items():
            self[name] = value
        self._first |= {name: self[name] for name in first}
        self.reset()

    def given(self) -> dict[str, np.ndarray]:
        """Return the tensors that the next run begins with, besides its inputs."""
        return {state.input: self._values[name] for name, state in self._states.items()}

    def keep(self, value: Callable[[str], np.ndarray]) -> None:
        """Take the values after a run, of which ``value`` returns a tensor by name."""
        after = {name: value(state.output) for name, state in self._states.items()}
        for name, each in after.items():
            self[name] = each

    def __getitem__(self, name: str) -> np.ndarray:
        return self._values[name]

    def __setitem__(self, name: str, value: np.ndarray) -> None:
        """Set a state; KeyError if there is no such one, ValueError if shape or dtype are wrong."""
        due = self._states[name].initial
        if (value.shape, value.dtype) != (due.shape, due.dtype):
            raise ValueError(
                f"State {name!r} must be {due.dtype} {list(due.shape)}, "
                f"not {value.dtype} {list(value.shape)}"
            )
        self._values[name] = value.copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
