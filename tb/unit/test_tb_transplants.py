"""Mutants of a chip in the bench of a component: the same change of the same cell, if it has it."""

import re
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite_tb.component_ports import component_ports
from tpulite_tb.mutants import component_cells, mutants_of, with_mutants
from tpulite_tb.transplants import transplanted, transplants


class Sum(wiring.Component):
    """The sum of all that came so far, and of a number of its own."""

    def __init__(self, width: int, number: int) -> None:
        self._number = number
        super().__init__({"i": In(unsigned(width)), "o": Out(unsigned(width))})

    def elaborate(self, platform) -> Module:
        m = Module()
        total = Signal(len(self.i))
        m.d.sync += total.eq(total + self.i)
        m.d.comb += self.o.eq(total ^ self._number)
        return m


class Chip(wiring.Component):
    """Two sums, the second of what the first gives, and a gate."""

    def __init__(self) -> None:
        super().__init__({"i": In(unsigned(8)), "gate": In(1), "o": Out(unsigned(8))})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.first = first = Sum(8, 5)
        m.submodules.second = second = Sum(8, 5)
        gated = self.i & self.gate.replicate(8)
        m.d.comb += [first.i.eq(gated), second.i.eq(first.o), self.o.eq(second.o)]
        return m


@pytest.fixture(scope="module")
def chip() -> Path:
    whole = Chip()
    return with_mutants(whole, component_ports(whole), 60)


def _changes(folder: Path, numbers: set[int] | None = None) -> dict[int, tuple[str, str]]:
    found = mutants_of(folder)
    return {m.number: (m.change, m.place) for m in found if numbers is None or m.number in numbers}


def test_a_component_has_the_mutants_of_its_cells(chip: Path) -> None:
    component = Sum(8, 5)
    folder = transplanted(component, component_ports(component), chip, range(1, 61))
    assert folder is not None
    inside = {m.number for m in mutants_of(chip) if m.module in ("dut.first", "dut.second")}
    assert 20 < len(inside) < 60, "the chip's mutants are in both sums, and around them"
    assert _changes(folder) == _changes(chip, inside)

    cells = (component_cells(component, component_ports(component)) / "cells.il").read_text()
    theirs = {mutant.number: mutant for mutant in mutants_of(chip)}
    for mutant in mutants_of(folder):
        assert mutant.module == "dut"
        there = theirs[mutant.number].cell
        assert _kind((chip / "cells.il").read_text(), there) == _kind(cells, mutant.cell)


def _kind(text: str, cell: str) -> str:
    (kind,) = set(re.findall(rf"^  cell (\S+) \\?{re.escape(cell)}$", text, re.MULTILINE))
    return kind


def test_only_those_that_are_wanted(chip: Path) -> None:
    component = Sum(8, 5)
    some = {mutant.number for mutant in mutants_of(chip)[::3] if mutant.module == "dut.first"}
    folder = transplanted(component, component_ports(component), chip, some)
    assert folder is not None
    assert set(_changes(folder)) == some


def test_other_widths_have_none(chip: Path) -> None:
    component = Sum(9, 5)
    assert transplanted(component, component_ports(component), chip, range(1, 61)) is None


INSTANCE = """
module \\{module}
  attribute \\src "engine.py:7"
  cell \\{module}.part \\part
    connect \\clk \\clk
    connect \\port${number}$0 \\wide
    connect \\ready \\ready
  end
end
"""


def test_ports_that_are_called_after_what_is_around_them_have_no_equal() -> None:
    chip = INSTANCE.format(module="dut.engine", number=7)
    component = INSTANCE.format(module="dut", number=3)
    command = "mutate -ctrl mutation 12 {} -mode inv -module {} -cell part -port {} -portbit 0"
    ports = ["port$7$0", "ready", "clk"]
    mutations = [command.format(n, "dut.engine", port) for n, port in enumerate(ports, 1)]
    found = transplants(chip, mutations, component, [1, 2, 3])
    assert found == [command.format(2, "dut", "ready")]


@pytest.mark.parametrize(("line", "equal"), [("engine.py:7", True), ("_ast.py:1320", False)])
def test_a_line_of_amaranth_is_no_line(line: str, equal: bool) -> None:
    cell = """
module \\{module}
  attribute \\src "{line}"
  cell $eq ${number}
    connect \\A \\{a}
  end
{more}end
"""
    more = "  cell $not $9\n    connect \\A \\a\n  end\n"
    chip = cell.format(module="dut.engine", line=line, number=1, a="mode", more="")
    component = cell.format(module="dut", line=line, number=2, a="style", more=more)
    mutation = "mutate -ctrl mutation 12 1 -mode inv -module {} -cell {} -port A -portbit 0"
    found = transplants(chip, [mutation.format("dut.engine", "$1")], component, [1])
    assert found == ([mutation.format("dut", "$2")] if equal else [])
