"""What an LSTM, GRU or RNN node of an ONNX file computes, and why one stays whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tpulite.frontend.onnx.read.attributes import attributes_of

FUNCTIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""Functions of each operator that is split, in the order of its attribute ``activations``."""

MOST_STEPS = 128
"""Steps of a sequence that are worth a program each, as for LSTMs of TFLite."""

_W, _R, _B, _LENGTHS, _P = 1, 2, 3, 4, 7  # inputs
_RANK = 3  # of the sequence: [steps, batch, features]


@dataclass(frozen=True)
class Direction:
    """Weights of one direction; gates lie side by side, in the order of the file.

    The order is i, o, f, c of an LSTM, and z, r, h of a GRU.
    """

    entering: np.ndarray  #: float32 [features, gates * cells]
    recurrent: np.ndarray  #: float32 [cells, gates * cells]
    entering_bias: np.ndarray  #: float32 [gates * cells]
    recurrent_bias: np.ndarray  #: float32 [gates * cells]
    peepholes: np.ndarray | None  #: float32 [3, cells], of i, o and f
    backward: bool  #: Whether the last step comes first.

    @property
    def name(self) -> str:
        """Return how the direction is called."""
        return "backward" if self.backward else "forward"

    @property
    def cells(self) -> int:
        """Return the length of the hidden state."""
        return len(self.recurrent)


def directions_of(
    node: onnx.NodeProto, constants: Mapping[str, np.ndarray]
) -> tuple[Direction, ...]:
    """Return the directions of a node for which :func:`why_whole` has no reason."""
    w, r = (constants[node.input[index]] for index in (_W, _R))
    b, p = (constants.get(optional_input(node, index)) for index in (_B, _P))
    if b is None:
        b = np.zeros((len(w), 2 * w.shape[1]), np.float32)
    first = attributes_of(node).get("direction", "forward") == "reverse"
    return tuple(
        Direction(
            w[index].T,
            r[index].T,
            *np.split(b[index], 2),
            peepholes=None if p is None else p[index].reshape(3, -1),
            backward=first or index > 0,
        )
        for index in range(len(w))
    )


def why_whole(
    node: onnx.NodeProto, shape: Sequence[int], constants: Mapping[str, np.ndarray]
) -> str:
    """Return why a recurrent node stays as it is; an empty string if it need not.

    Parameters
    ----------
    node : NodeProto
        An operator of :data:`FUNCTIONS`.
    shape : sequence of int
        Extents of its input; none, or 0, where they are not known.
    constants : mapping of str to ndarray
        Tensors that are known.
    """
    attributes = attributes_of(node)
    own = FUNCTIONS[node.op_type]
    functions = attributes.get("activations", own)
    weights = (optional_input(node, index) for index in (_W, _R, _B, _P))
    reasons = (
        (len(shape) != _RANK or not all(shape), "the shape of its input is not known"),
        (attributes.get("layout", 0), "its layout is not 0"),
        (shape and shape[0] > MOST_STEPS, f"it has more than {MOST_STEPS} steps"),
        (attributes.get("clip", 0), "its gates are clipped"),
        (functions not in (own, own * 2), f"its activations are not {' and '.join(own)}"),
        (attributes.get("input_forget", 0), "its input and forget gates are coupled"),
        (optional_input(node, _LENGTHS), "it has sequence_lens"),
        (any(x and x not in constants for x in weights), "its weights are computed at run time"),
    )
    return next((reason for applies, reason in reasons if applies), "")


def optional_input(node: onnx.NodeProto, index: int) -> str:
    """Return the name of an input; an empty string if there is none."""
    return node.input[index] if index < len(node.input) else ""
