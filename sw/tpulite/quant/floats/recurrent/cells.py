"""Steps of LSTM, GRU and RNN in operators of ONNX.

A step reads what the input adds to its gates, float32 [batch, gates * cells], and a
:class:`State`. Only its products have integers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.products import Product
from tpulite.quant.floats.recurrent.layer import Direction
from tpulite.quant.floats.written import Written


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
