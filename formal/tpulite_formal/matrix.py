"""What the matrix unit does not do: waivers of coverage (`tb/coverage_waivers.csv`) say so."""

from functools import partial

from amaranth.hdl import Mux

from tpulite.arch.config import Config
from tpulite.arch.registers import EngineState
from tpulite_formal.engines import prove_steps, surround
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_formal.queue import queues_in
from tpulite_rtl.mxu import accumulator
from tpulite_rtl.mxu.accumulator import Accumulator
from tpulite_rtl.mxu.matrix_unit import MatrixUnit

__all__ = ["PROOFS"]

_SMALL = Config(array_size=4, ub_rows=256, acc_rows=64, ub_banks=4, queue_depth=4)
_DEFAULT = Config()
_ROWS = 1024
"""Accumulators of the largest machine."""
_TAKERS = ("weights", "records", "vectors", "array", "accumulator", "requantizer")
"""What takes a command's shares, or has to do with its sums."""


def _tokens(config: Config) -> Harness:
    """Return a harness in which what takes a command's shares may do anything."""
    dut = MatrixUnit(config)
    h = Harness(dut)
    h.cut(*(getattr(h.inner.submodules, name) for name in _TAKERS))
    surround(h, dut.engine)
    prove_steps(h, dut.engine, [(EngineState.TOKEN, EngineState.IDLE)])
    return h


def _lines(config: Config) -> Harness:
    """Return a harness with commands of whole lines, none of which has more than all accumulators.

    The preparation refuses others.
    """
    dut = Accumulator(config)
    with queues_in(accumulator):
        h = Harness(dut)
    h.cut(h.inner.submodules.memory)
    commands, inner = h.inner.submodules.commands, h.register("inner")
    last = commands.o.payload.command.inner_last
    h.assume(~dut.i.valid | commands.o.valid)
    h.assume(last < _ROWS)
    h.assume(~commands.o.ready | (inner == last))
    placed = inner <= Mux(commands.o.valid, last, 0)
    known = placed & (commands.level <= commands.depth)
    h.prove("state", "the place is in a line of the command, or the first one", known)
    h.prove("inner", f"the place in a line is below {_ROWS}", inner < _ROWS)
    h.cover("place", "it is the third vector of a line", inner == 2)
    return h


PROOFS = [
    Proof("mxu.matrix_unit", "4x4", partial(_tokens, _SMALL), mutants=200),
    Proof("mxu.matrix_unit", "16x16", partial(_tokens, _DEFAULT), mutants=200),
    Proof(
        "mxu.accumulator",
        "4x4, commands of whole lines",
        partial(_lines, _SMALL),
        inductive=True,
        mutants=300,
    ),
]
