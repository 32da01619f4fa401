"""Steps of LSTM, GRU and RNN in operators of ONNX.

A step reads what the input adds to its gates, float32 [batch, gates * cells], and a
:class:`State`. Only its products have integers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.expansion import Written
from tpulite.quant.floats.products import Product

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


@dataclass(frozen=True)
class State:
    """What a step leaves to the next: names of float32 [batch, cells]; an empty one is zero."""

    hidden: str = ""
    cell: str = ""


Step = Callable[[str, State, str], State]
"""Adds a step; takes the input's share of the gates, the state before, and how names begin."""

Multiplied = Callable[[np.ndarray, str], Product]
"""Makes the product of the hidden state by weights [cells, outputs]; its constants are named."""


@dataclass(frozen=True)
class Cell:
    """The steps of a direction."""

    bias: np.ndarray  #: float32 [gates * cells], added to the product of the input.
    step: Step


def cell_of(
    node: onnx.NodeProto, direction: Direction, multiplied: Multiplied, written: Written
) -> Cell:
    """Return the cell of a node; its constants are added, and its steps add operators."""
    if node.op_type == "LSTM":
        return _lstm(direction, multiplied, written)
    if node.op_type == "RNN":
        return _rnn(direction, multiplied, written)
    behind = attributes_of(node).get("linear_before_reset", 0)
    return (_gru_behind if behind else _gru_before)(direction, multiplied, written)


def _rnn(direction: Direction, multiplied: Multiplied, written: Written) -> Cell:
    product = multiplied(direction.recurrent, "recurrent")

    def step(x: str, state: State, role: str) -> State:
        if state.hidden:
            x = written.add("Add", [x, product.of(written, state.hidden, role)], f"{role}/gate")
        return State(written.add("Tanh", [x], f"{role}/hidden"))

    return Cell(direction.entering_bias + direction.recurrent_bias, step)


def _lstm(direction: Direction, multiplied: Multiplied, written: Written) -> Cell:
    product = multiplied(direction.recurrent, "recurrent")
    holes: dict[str, str] = {}
    if direction.peepholes is not None:
        for gate, weights in zip(("input", "output", "forget"), direction.peepholes, strict=True):
            holes[gate] = written.constant(f"{direction.name}/peephole_{gate}", weights)

    def opened(gate: str, x: str, cell: str, role: str) -> str:
        """Add a gate, which may see a cell state."""
        if cell and gate in holes:
            seen = written.add("Mul", [cell, holes[gate]], f"{role}/{gate}_seen")
            x = written.add("Add", [x, seen], f"{role}/{gate}_sum")
        return written.add("Sigmoid", [x], f"{role}/{gate}")

    def step(x: str, state: State, role: str) -> State:
        if state.hidden:
            x = written.add("Add", [x, product.of(written, state.hidden, role)], f"{role}/gates")
        i, o, f, g = written.split(x, 4, 1, f"{role}/gate")
        entering = [opened("input", i, state.cell, role), written.add("Tanh", [g], f"{role}/new")]
        cell = written.add("Mul", entering, f"{role}/entering")
        if state.cell:
            keeping = [opened("forget", f, state.cell, role), state.cell]
            kept = written.add("Mul", keeping, f"{role}/kept")
            cell = written.add("Add", [kept, cell], f"{role}/cell")
        shown = [opened("output", o, cell, role), written.add("Tanh", [cell], f"{role}/shown")]
        return State(written.add("Mul", shown, f"{role}/hidden"), cell)

    return Cell(direction.entering_bias + direction.recurrent_bias, step)


def _gru_before(direction: Direction, multiplied: Multiplied, written: Written) -> Cell:
    """Return a GRU that resets the hidden state before its product."""
    gates, new = np.split(direction.recurrent, [2 * direction.cells], axis=1)
    early, late = multiplied(gates, "recurrent_gates"), multiplied(new, "recurrent_new")

    def step(x: str, state: State, role: str) -> State:
        z, r, new = written.split(x, 3, 1, f"{role}/entering")
        if state.hidden:
            sums = early.of(written, state.hidden, role)
            z, r = _added(written, [z, r], written.split(sums, 2, 1, f"{role}/sum"), role)
            reset = written.add("Sigmoid", [r], f"{role}/reset")
            left = written.add("Mul", [reset, state.hidden], f"{role}/left")
            product = late.of(written, left, f"{role}/new")
            new = written.add("Add", [new, product], f"{role}/new/gate")
        return _mixed(written, z, new, state, role)

    return Cell(direction.entering_bias + direction.recurrent_bias, step)


def _gru_behind(direction: Direction, multiplied: Multiplied, written: Written) -> Cell:
    """Return a GRU that resets what the hidden state adds, with a bias."""
    product = multiplied(direction.recurrent, "recurrent")
    early, late = np.split(direction.recurrent_bias, [2 * direction.cells])
    bias = written.constant(f"{direction.name}/recurrent_bias", late)

    def step(x: str, state: State, role: str) -> State:
        z, r, new = written.split(x, 3, 1, f"{role}/entering")
        added = bias
        if state.hidden:
            *sums, more = written.split(
                product.of(written, state.hidden, role), 3, 1, f"{role}/sum"
            )
            z, r = _added(written, [z, r], sums, role)
            added = written.add("Add", [more, bias], f"{role}/more")
        reset = written.add("Sigmoid", [r], f"{role}/reset")
        left = written.add("Mul", [reset, added], f"{role}/left")
        new = written.add("Add", [new, left], f"{role}/new/gate")
        return _mixed(written, z, new, state, role)

    return Cell(direction.entering_bias + np.pad(early, (0, direction.cells)), step)


def _added(written: Written, gates: list[str], sums: list[str], role: str) -> list[str]:
    """Add sums of the hidden state to the gates z and r of a GRU."""
    pairs = zip("zr", gates, sums, strict=True)
    return [written.add("Add", [x, y], f"{role}/{gate}/gate") for gate, x, y in pairs]


def _mixed(written: Written, update: str, new: str, state: State, role: str) -> State:
    """Add what a GRU leaves: (1 - z) tanh(new) + z h."""
    z = written.add("Sigmoid", [update], f"{role}/update")
    candidate = written.add("Tanh", [new], f"{role}/candidate")
    if not state.hidden:
        rest = written.add("Mul", [z, candidate], f"{role}/rest")
        return State(written.add("Sub", [candidate, rest], f"{role}/hidden"))
    difference = written.add("Sub", [state.hidden, candidate], f"{role}/difference")
    moved = written.add("Mul", [z, difference], f"{role}/moved")
    return State(written.add("Add", [candidate, moved], f"{role}/hidden"))
