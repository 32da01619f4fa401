"""Mutants of the whole chip: how one is chosen, and what is kept of a run."""

import ctypes

import pytest

from tpulite_tb.chip_mutants import Chosen, LateError, chosen_verilog

MUTATED = """
module \\dut.part (a, mutation, y);
  input [11:0] mutation;
  wire [11:0] mutation;
endmodule

module dut(a, mutation, y);
  input a;
  wire a;
  input [11:0] mutation;
  wire [11:0] mutation;
  \\dut.part part (.a(a), .mutation(mutation), .y(y));
endmodule
"""


class Library:
    """Chips that count the bits that are flipped in them; none ever interrupts."""

    def __init__(self) -> None:
        self.flips: list[int] = []
        self.resets = 0

    def chip_new(self, *_options: int) -> str:
        return "chip"

    def chip_flip(self, _chip: str, variable: int, word: int, bit: int) -> None:
        assert (variable, word) == (0, 0)
        self.flips.append(bit)

    def chip_reset(self, _chip: str) -> None:
        self.resets += 1

    def chip_read_register(self, _chip: str, offset: int, value) -> int:
        value._obj.value = 10 * offset
        return 0

    def chip_wait_interrupt(self, _chip: str, cycles: int) -> int:
        return 0

    def chip_cycles(self, _chip: str) -> int:
        return 500


def test_a_register_chooses() -> None:
    text = chosen_verilog(MUTATED)
    part, top = text.split("module tpulite(")
    assert part == MUTATED.split("module dut(")[0]
    assert top.startswith("a, y);")
    assert top.count("[11:0] mutation") == 1 and "reg [11:0] mutation /*verilator public" in top
    assert ".mutation(mutation)" in top


def test_chips_are_reset_with_their_mutant() -> None:
    library = Library()
    chosen = Chosen(library)
    chosen.number = 0b1001_0000_0010
    assert chosen.chip_new(1, 2) == "chip"
    assert (library.flips, library.resets) == ([1, 8, 11], 1)


def test_what_the_host_reads_is_kept_until_the_next_trial() -> None:
    chosen = Chosen(Library())
    chosen.chip_read_register("chip", 4, ctypes.byref(ctypes.c_uint32()))
    assert chosen.seen == [(4, 40, 0)]
    chosen.begin()
    assert chosen.seen == []


def test_runs_that_take_much_longer_are_given_up() -> None:
    chosen = Chosen(Library())
    assert not chosen.chip_wait_interrupt("chip", 10)
    assert chosen.longest == 500
    chosen.begin(limit=499)
    with pytest.raises(LateError):
        chosen.chip_wait_interrupt("chip", 10)
