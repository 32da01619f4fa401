"""Systolic array: what enters each multiplier, and that a sum is that of its column's products.

Multipliers are taken out: each product is any value in every cycle. That an element multiplies what
enters it, and adds the product to the psum that passes, is proven of the element alone; together
they say that ``o[c]`` is the sum over the rows of activation times weight.
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from tpulite.arch.config import Config
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.mxu import processing_element
from tpulite_rtl.mxu.processing_element import WEIGHT_WIDTH, ProcessingElement
from tpulite_rtl.mxu.systolic_array import SystolicArray, vector_layout

__all__ = ["PROOFS"]

_PRODUCT = signed(16)
"""Of a weight without its zero point, -255 ... 255, and an activation."""


class _Array:
    """An array whose submodules are open, and whose multipliers are taken out."""

    def __init__(self, size: int) -> None:
        config = Config(array_size=size)
        self.size = size
        self.layout = vector_layout(config)
        self.dut = SystolicArray(config)
        self.h = Harness(self.dut)
        self.places = [(row, col) for row in range(size) for col in range(size)]
        self.products: dict[tuple[int, int], Value] = {}
        self.operands: dict[tuple[int, int], tuple[Value, Value]] = {}
        self.insides: dict[str, Any] = {}
        for name in ("skew", "deskew"):
            self._open(name)
        for row, col in self.places:
            self._take_out(row, col)

    def part(self, name: str) -> Any:
        """Return a submodule."""
        return getattr(self.h.inner.submodules, name)

    def register(self, part: str, name: str) -> Signal:
        """Return a register of a submodule."""
        (found,) = (signal for signal in self.insides[part]._driving if signal.name == name)
        return found

    def history(self, value: Value, cycles: int, name: str, *, none: int = 0) -> Sequence[Value]:
        """Return a value as it is, and as it was up to so many cycles ago, since reset."""
        result = [value]
        for cycle in range(1, cycles + 1):
            before = Signal(value.shape(), name=f"{name}_{cycle}_ago", init=none)
            self.h.m.d.sync += before.eq(result[-1])
            result.append(before)
        return result

    def _open(self, name: str, elaborate: Callable[..., Module] | None = None) -> None:
        part = self.part(name)
        self.insides[name] = inside = (elaborate or type(part).elaborate)(part, None)
        part.elaborate = lambda platform: inside

    def _take_out(self, row: int, col: int) -> None:
        product = self.products[row, col] = self.h.free(_PRODUCT, f"product_{row}_{col}")

        def multiply_add(
            m: Module, a: Value, b: Value, c: Value, *, style: str, platform: Any
        ) -> Value:
            self.operands[row, col] = a, b
            return c + product

        # With names of its own, as proofs run in threads that share those of the module.
        original = ProcessingElement.elaborate
        names = vars(processing_element) | {"multiply_add": multiply_add}
        self._open(f"pe_{row}_{col}", FunctionType(original.__code__, names))


def _operands(size: int) -> Harness:
    """Return a harness that writes the rows of a tile when they are due, and at no other time."""
    array = _Array(size)
    h, dut = array.h, array.dut
    payloads = array.history(Value.cast(dut.i.payload), 2 * size, "vector")
    vectors = [data.View(array.layout, payload) for payload in payloads]
    firsts = [vector.first for vector in vectors]
    firsts += array.history(firsts[-1], size, "first")[1:]
    known = Signal(name="tiled")  # there was a tile since reset
    h.m.d.sync += known.eq(known | firsts[0])
    tiled = array.history(known | firsts[0], 2 * size, "tiled")
    written = Mux(dut.weight.valid, dut.weight.payload.row, size)
    rows = array.history(written, 2 * size, "row", none=size)
    weights = array.history(Value.cast(dut.weight.payload.weights), size, "weights")
    for row in range(size):  # r - 1 cycles after the first vector of its tile
        h.assume((rows[row == 0] == row) == firsts[max(row - 1, 0)])

    state: list[Value] = [
        (rows[ago] == row) == firsts[row - 1 + ago]
        for row in range(size)
        for ago in range(1, 2 * size + 1)
        if row - 1 + ago <= 3 * size
    ]
    state += [tiled[ago] == (tiled[ago + 1] | firsts[ago]) for ago in range(2 * size)]
    for row, late in ((lane, ago) for lane in range(size) for ago in range(1, lane + 1)):
        lane = array.register("skew", f"lane{row}_{late}")
        vector = vectors[late]
        expected = Cat(vector.activations[row], vector.first, vector.depthwise)
        state.append(~tiled[late] | (Value.cast(lane) == expected))
    for row, col in array.places:
        element, late = array.part(f"pe_{row}_{col}"), row + col
        vector = vectors[late]
        passing = Cat(element.i_activation, element.i_first, element.i_depthwise)
        expected = Cat(vector.activations[row], vector.first, vector.depthwise)
        state.append(~tiled[late] | (passing == expected))
        of_tile = [past.word_select(col, WEIGHT_WIDTH).as_signed() for past in weights]
        shadow = array.register(f"pe_{row}_{col}", "shadow")
        for ago in range(1, size + 1):
            again = Cat(rows[since] == row for since in range(1, ago)).any()
            state.append((rows[ago] != row) | again | (shadow == of_tile[ago]))
        used, held = (
            Signal(signed(WEIGHT_WIDTH), name=f"{n}_{row}_{col}") for n in ("use", "hold")
        )
        h.m.d.comb += used.eq(Mux(vector.first, of_tile[col + 1], held))
        h.m.d.sync += held.eq(used)
        active = array.register(f"pe_{row}_{col}", "active")
        state.append(~tiled[late + 1] | (active == held))
        weight, activation = array.operands[row, col]
        of_vector = vector.activations[row], vectors[col].activations[col]
        h.prove(
            f"operands_{row}_{col}",
            f"row {row}, column {col}: the weight written for the vector's tile, and its "
            f"activation {row}; in depthwise mode activation {col} of {row} cycles later",
            ~tiled[late]
            | ((weight == used) & (activation == Mux(vector.depthwise, *reversed(of_vector)))),
        )
    h.prove(
        "state", "registers mean what they are for, from which the rest follows", Cat(state).all()
    )
    change = tiled[size] & firsts[0] & firsts[size] & vectors[0].depthwise
    h.cover("change", "a tile follows another after N cycles, in depthwise mode", change)
    return h


def _sums(size: int) -> Harness:
    """Return a harness with any products."""
    array = _Array(size)
    h, dut = array.h, array.dut
    valid = array.history(dut.i.valid, dut.latency, "valid")
    since_reset = array.history(Const(1, 1), dut.latency, "running")
    past = {
        (row, col): array.history(product, dut.latency - row - col, f"product_{row}_{col}")
        for (row, col), product in array.products.items()
    }

    def total(row: int, col: int, late: int) -> Value:
        """Return the sum of the rows down to this one, which left it so many cycles ago."""
        passed = (past[above, col][1 + late + row - above] for above in range(row + 1))
        return sum(passed, start=Const(0, 1))

    h.prove(
        "valid",
        "a sum comes 2 N - 1 cycles after each vector, and never else",
        (h.register("in_flight") == Cat(valid[1:])) & (dut.o.valid == valid[-1]),
    )
    psums = [
        array.part(f"pe_{row}_{col}").o_psum == total(row, col, 0) for row, col in array.places
    ]
    h.prove(
        "psums", "a psum is the sum of the products of its row and those above", Cat(psums).all()
    )
    state = [~valid[ago] | since_reset[ago] for ago in range(dut.latency + 1)]
    for col in range(size):
        for late in range(1, size - col):
            lane = array.register("deskew", f"lane{col}_{late}")
            state.append(~since_reset[late] | (lane == total(size - 1, col, late)))
    h.prove("state", "sums wait for those of the last column", Cat(state).all())
    for col in range(size):
        h.prove(
            f"sum_{col}",
            f"column {col}: the products of all rows with a vector add up to its sum",
            ~dut.o.valid | (dut.o.payload[col] == total(size - 1, col, size - 1 - col)),
        )
    h.cover("sum", "a sum of one", dut.o.valid & (dut.o.payload[0] == 1))
    return h


PROOFS = [
    Proof("mxu.systolic_array", f"4x4, {case}", partial(harness, 4), inductive=True)
    for case, harness in (("operands", _operands), ("sums", _sums))
]
