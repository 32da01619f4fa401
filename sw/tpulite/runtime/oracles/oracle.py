"""What a library is to a comparison: outputs of the untouched file, and what it shows inside."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

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
        :func:`tpulite.runtime.oracles.faults.known_faults`.
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
