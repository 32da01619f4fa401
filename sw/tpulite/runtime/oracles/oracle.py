"""What a library is to a comparison: what it shows, and where it is known to be wrong."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tpulite.graph.graph import Graph, Node

Values = Mapping[str, np.ndarray]

Run = Callable[[Values], dict[str, np.ndarray]]
"""Runs one input, by names of the graph, and returns tensors by names of the graph."""


class Oracle:
    """A library that runs a file as its users do, and beside it once more with tensors exposed.

    Exposed tensors may stop fusions of the library. They count only as long as the outputs of both
    sessions are the same bits; after the first input for which they are not, none is shown.

    Parameters
    ----------
    outputs : callable
        Returns the outputs of the untouched file, run with the library's default options.
    exposed : callable, optional
        Returns the outputs and tensors inside, from a session of its own.
    hidden : str
        Why no tensors are shown, if there is no such session.
    resets : sequence of callable
        What lets the states of the sessions begin anew.

    Attributes
    ----------
    hidden : str
        Why tensors inside do not count; nothing as long as they do.
    known : mapping of str to str
        Tensors in which the library is known to be wrong, and how; see
        :func:`tpulite.runtime.oracles.oracle.known_faults`.
    """

    def __init__(
        self,
        outputs: Run,
        exposed: Run | None = None,
        hidden: str = "",
        resets: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.outputs = outputs
        self.hidden = hidden
        self._resets = resets
        self.known: Mapping[str, str] = {}
        self._exposed = exposed

    def __call__(self, values: Values) -> dict[str, np.ndarray]:
        """Return the outputs of one input, and the tensors inside that count."""
        outputs = self.outputs(values)
        if self._exposed is None:
            return outputs
        try:
            shown = self._exposed(values)
        except Exception as error:  # a library's own
            self._hide(f"it fails when they are outputs ({error})")
            return outputs
        if not all(same_bits(outputs[name], shown[name]) for name in outputs):
            self._hide("its outputs change when they are outputs, too")
            return outputs
        return shown | outputs

    def reset(self) -> None:
        """Let states begin anew: the next input is the first one of a sequence."""
        for reset in self._resets:
            reset()

    def _hide(self, why: str) -> None:
        self._exposed, self.hidden = None, why


def same_bits(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Tell whether two arrays are the same, not a number included."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    return bool(((ours == theirs) | ((ours != ours) & (theirs != theirs))).all())


def _sums_int8(graph: Graph, node: Node) -> bool:
    return node.op == "sum" and graph.tensors[node.inputs[0]].dtype == "int8"


_FAULTS: Mapping[str, tuple[Callable[[Graph, Node], bool], str]] = {
    "litert-ref": (
        _sums_int8,
        "LiteRT's reference SUM reads int8 as uint8; litert-opt and tflm sum int8 correctly",
    ),
}
"""For each oracle: which nodes it computes wrong, and how."""


def known_faults(oracle: str, graph: Graph) -> dict[str, str]:
    """Return the tensors that a library gets wrong, each with the reason.

    Parameters
    ----------
    graph : Graph
        The network. What is computed of a wrong tensor is wrong, too.
    """
    if oracle not in _FAULTS:
        return {}
    wrong, reason = _FAULTS[oracle]
    found: dict[str, str] = {}
    for node in graph.nodes:
        if wrong(graph, node) or any(name in found for name in node.inputs):
            found |= dict.fromkeys(node.outputs, reason)
    return found
