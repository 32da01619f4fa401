"""Recurrent nodes of a float ONNX file become products of integers, step by step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from tpulite.quant.floats.axes import Axes, drop_constants
from tpulite.quant.floats.expansion import Written
from tpulite.quant.floats.graph import Links
from tpulite.quant.floats.products import Integers, Product, Weights
from tpulite.quant.floats.ranges import Range
from tpulite.quant.floats.recurrent.cells import (
    FUNCTIONS,
    Direction,
    State,
    cell_of,
    directions_of,
    optional_input,
    why_whole,
)

_H, _C = 5, 6  # inputs
_SIGNED, _LEVELS = 127, 255


@dataclass(frozen=True)
class Rounding:
    """How numbers become integers."""

    ranges: Mapping[str, Range]  #: Ranges of float tensors.
    weights: Weights  #: How weights become int8.
    signed: bool  #: Whether what a node reads becomes int8, not uint8.
    symmetric: bool  #: Whether the zero point of that is the middle.


def whole_recurrent(model: onnx.ModelProto) -> dict[str, str]:
    """Return why recurrent nodes of a file stay as they are, by their names."""
    nodes = [node for node in model.graph.node if _is_recurrent(node)]
    if not nodes:
        return {}
    links = Links(model.graph)
    axes = Axes(model, links)
    found = {x.name: why_whole(x, axes.shape(x.input[0]), links.constants) for x in nodes}
    return {name: reason for name, reason in found.items() if reason}


def split_recurrent(data: bytes, rounding: Rounding) -> bytes:
    """Replace LSTM, GRU and RNN by MatMulInteger and what floats make of its sums.

    The products of the input, of all gates and steps, are one of a direction. Those of the hidden
    state are one of a step (two of a GRU that resets before it), all with the same weights and
    scales. Between DequantizeLinear of the sums and QuantizeLinear of the next hidden state stand
    operators of floats, so cell states have 32 bits.

    Parameters
    ----------
    data : bytes
        A file that ONNX Runtime's quantizer has written.
    rounding : Rounding
        How its numbers become integers.

    Returns
    -------
    bytes
        The file, without nodes for which :func:`whole_recurrent` has no reason.
    """
    model = onnx.load_model_from_string(data)
    graph = model.graph
    nodes = [node for node in graph.node if _is_recurrent(node)]
    whole = whole_recurrent(model)
    if len(whole) == len(nodes):
        return data
    links, axes = Links(graph), Axes(model, Links(graph))
    opset = max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    written: list[onnx.NodeProto] = []
    for node in graph.node:
        if not _is_recurrent(node) or node.name in whole:
            written.append(node)
            continue
        each = Written(node.name, opset)
        steps, batch, _ = axes.shape(node.input[0])
        _Split(node, steps, batch, links, rounding, each).write()
        written += each.nodes
        graph.initializer.extend(each.constants)
    del graph.node[:]
    graph.node.extend(written)
    drop_constants(graph)
    return model.SerializeToString()


def _is_recurrent(node: onnx.NodeProto) -> bool:
    return node.op_type in FUNCTIONS and node.domain in ("", "ai.onnx")


@dataclass(frozen=True, eq=False)
class _Split:
    """A node that is replaced."""

    node: onnx.NodeProto
    steps: int
    batch: int
    links: Links
    rounding: Rounding
    written: Written

    def write(self) -> None:
        """Write all directions, and join them as the node's outputs."""
        written, x = self.written, self.node.input[0]
        y, y_h, y_c = (*self.node.output, "", "")[:3]
        directions = directions_of(self.node, self.links.constants)
        entering, hidden = self._entering(), self._hidden()
        flat = written.reshape(x, (self.steps * self.batch, -1), "entering/rows")
        rows = entering.round(written, flat, "entering")
        found = [
            self._run(each, State(*state), (rows, entering), hidden)
            for each, state in zip(directions, self._initial(len(directions)), strict=True)
        ]
        ends = [
            states[0 if each.backward else -1]
            for each, states in zip(directions, found, strict=True)
        ]
        if y:
            self._join_sequences([[state.hidden for state in states] for states in found], y)
        if y_h:
            self._join_states([state.hidden for state in ends], y_h)
        if y_c:
            self._join_states([state.cell for state in ends], y_c)

    def _run(
        self, direction: Direction, state: State, x: tuple[str, Integers], hidden: Integers
    ) -> list[State]:
        """Write the steps of a direction; return the states behind them, in the order of time.

        ``x`` is the name of the integers of the input, and how they were rounded.
        """
        written, name = self.written, direction.name

        def multiplied(weight: np.ndarray, role: str, source: Integers = hidden) -> Product:
            rounding = self.rounding.weights
            return Product.by(written, source, weight, f"{name}/{role}", rounding)

        cell = cell_of(self.node, direction, multiplied, written)
        product = multiplied(direction.entering, "entering", x[1])
        sums = product.of_integers(written, x[0], f"{name}/entering")
        bias = written.constant(f"{name}/bias", cell.bias)
        gates = written.add("Add", [sums, bias], f"{name}/entering/gates")
        every = list(enumerate(written.split(gates, self.steps, 0, f"{name}/step")))
        states = []
        for index, each in reversed(every) if direction.backward else every:
            state = cell.step(each, state, f"{name}/{index}")
            states.append(state)
        return states[::-1] if direction.backward else states

    def _initial(self, directions: int) -> Iterator[tuple[str, str]]:
        """Yield the names of the first states of each direction, float32 [batch, cells]."""
        both = []
        for index, role in ((_H, "initial_h"), (_C, "initial_c")):
            rows = [""] * directions
            if name := optional_input(self.node, index):
                flat = self.written.reshape(name, (directions * self.batch, -1), f"{role}/rows")
                rows = self.written.split(flat, directions, 0, role)
            both.append(rows)
        yield from zip(*both, strict=True)

    def _entering(self) -> Integers:
        """Return how the input is rounded: as it was before, if it comes from integers."""
        name, written, rounding = self.node.input[0], self.written, self.rounding
        before = self.links.writer.get(name)
        if before is not None and before.op_type == "DequantizeLinear" and len(before.input) > 2:
            scale = self.links.constants.get(before.input[1])
            zero = self.links.constants.get(before.input[2])
            if scale is not None and zero is not None and scale.size == 1:
                return Integers(before.input[1], before.input[2], np.float32(scale.item()))
        low, high = min(rounding.ranges[name][0], 0.0), max(rounding.ranges[name][1], 0.0)
        if rounding.symmetric:
            high = max(-low, high)
            low = -high
        step = np.float32((high - low) / _LEVELS or 1.0)
        dtype = np.int8 if rounding.signed else np.uint8
        zero = np.array(np.iinfo(dtype).min + np.rint(-low / step), dtype)
        return Integers(
            written.constant("entering_scale", step),
            written.constant("entering_zero_point", zero),
            step,
        )

    def _hidden(self) -> Integers:
        """Return how hidden states are rounded: as int8 around 0, whose ends are the largest seen.

        None is above 1, unless the first one is.
        """
        ranges, h = self.rounding.ranges, optional_input(self.node, _H)
        first = self.links.constants.get(h, np.zeros(1))
        seen = *ranges.get(self.node.output[0], (1.0,)), *ranges.get(h, (0.0,))
        largest = max(float(np.abs(first).max()), *map(abs, seen))
        step = np.float32((largest or 1.0) / _SIGNED)
        return Integers(
            self.written.constant("hidden_scale", step),
            self.written.constant("hidden_zero_point", np.array(0, np.int8)),
            step,
        )

    def _join_sequences(self, directions: list[list[str]], y: str) -> None:
        """Join hidden states [batch, cells] of all steps to [steps, directions, batch, cells]."""
        written = self.written
        shape = self.steps, 1, self.batch, -1
        if len(directions) == 1:
            whole = written.concat(directions[0], 0, "forward/sequence")
            written.reshape(whole, shape, "sequence", output=y)
            return
        both = []
        for index, names in enumerate(directions):
            whole = written.concat(names, 0, f"sequence.{index}")
            both.append(written.reshape(whole, shape, f"sequence.{index}/steps"))
        written.concat(both, 1, "sequence", output=y)

    def _join_states(self, names: list[str], output: str) -> None:
        """Join states [batch, cells] of all directions to [directions, batch, cells]."""
        whole = self.written.concat(names, 0, f"{output}/rows")
        self.written.reshape(whole, (len(names), self.batch, -1), output, output=output)
