"""Mutants chosen at run time: the solver tells those that differ from those that do not."""

from dataclasses import replace

import pytest
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite_formal.equivalence import differ
from tpulite_rtl.lib.memory import TwoPortRam
from tpulite_tb.component_ports import component_ports
from tpulite_tb.mutants import (
    BITS,
    NAME,
    Mutant,
    is_constant_kept,
    mutants_of,
    with_mutants,
)


class Twice(wiring.Component):
    """A sum of which the lowest bit does not count, in a register."""

    def __init__(self) -> None:
        super().__init__({"a": In(unsigned(3)), "y": Out(unsigned(3))})

    def elaborate(self, platform):
        m = Module()
        total = Signal(4)
        m.d.comb += total.eq(self.a + 1)
        m.d.sync += self.y.eq(total >> 1)
        return m


class Masked(wiring.Component):
    """Twice in which one of the bits of the sum is not looked at."""

    def __init__(self) -> None:
        super().__init__({"a": In(unsigned(3)), "y": Out(unsigned(2))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.twice = twice = Twice()
        m.d.comb += [twice.a.eq(self.a), self.y.eq(twice.y)]
        return m


@pytest.fixture(scope="module")
def mutants():
    component = Twice()
    return with_mutants(component, component_ports(component), 12)


def test_mutants_are_told_apart(mutants, tmp_path):
    found = mutants_of(mutants)
    assert [mutant.number for mutant in found] == list(range(1, 13))
    assert all(mutant.change and mutant.place for mutant in found)
    source = mutants / "mutated.il"
    verdicts = [differ(source, tmp_path, NAME, BITS, number, 10) for number in (0, 1, 2)]
    assert verdicts[0].status == "never"
    assert "high" in [verdict.status for verdict in verdicts[1:]]


def test_what_nobody_has_read_yet_is_the_same_on_both_sides(tmp_path):
    memory = TwoPortRam(3, 4)
    source = with_mutants(memory, component_ports(memory), 1) / "mutated.il"
    assert differ(source, tmp_path, NAME, BITS, 0, 10).status == "never"


@pytest.fixture(scope="module")
def masked():
    component = Masked()
    return with_mutants(component, component_ports(component), 30)


def _inside(folder, *changes):
    """Return the mutants of the part that end so."""
    inside = [mutant for mutant in mutants_of(folder) if mutant.module == "dut.twice"]
    return [mutant.number for mutant in inside if mutant.change.endswith(changes)]


def test_a_part_may_differ_where_the_whole_does_not(masked, tmp_path):
    of_highest_bit = _inside(masked, " D[2]", " Y[3]")
    source = masked / "mutated.il"
    for number in of_highest_bit:
        assert differ(source, tmp_path, NAME, BITS, number, 10).status == "never"
        assert differ(source, tmp_path, NAME, BITS, number, 10, top="dut.twice").status == "high"
    assert of_highest_bit


def test_what_a_part_does_is_seen_around_it(masked, tmp_path):
    shown = _inside(masked, "inv D[0]", "inv D[1]")
    for number in shown:
        assert differ(masked / "mutated.il", tmp_path, NAME, BITS, number, 10).status == "high"
    assert shown


def test_a_constant_that_is_kept_changes_nothing(mutants, tmp_path):
    kept = {m.number for m in mutants_of(mutants) if is_constant_kept(mutants, m)}
    assert all(
        differ(mutants / "mutated.il", tmp_path, NAME, BITS, n, 10).status == "never" for n in kept
    )
    one = Mutant(1, "const1 B[0]", "", "dut", "$1")
    (tmp_path / "cells.il").write_text(
        "module \\dut\n  cell $add $1\n    connect \\A \\a\n    connect \\B 2'01\n  end\nend\n"
    )
    assert is_constant_kept(tmp_path, one)
    for change in ("const0 B[0]", "const1 B[1]", "inv B[0]", "const1 A[0]"):
        assert not is_constant_kept(tmp_path, replace(one, change=change)), change
