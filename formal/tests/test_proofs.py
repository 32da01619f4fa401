"""The quick proofs hold, and each of their properties can fail."""

import gc
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof, contents_of, run
from tpulite_formal.table import PROOFS
from tpulite_testing.evidence import evidence
from tpulite_testing.regress import breadth

QUICKEST = "mxu.processing_element.dsp"


@pytest.mark.parametrize(
    "proof",
    [
        *(proof for proof in PROOFS if proof.quick),
        *breadth("minutes; `make prove` decides all", *(p for p in PROOFS if not p.quick)),
    ],
    ids=lambda p: p.name,
)
def test_holds_and_a_mutant_breaks_it(proof: Proof, tmp_path: Path) -> None:
    with evidence(f"proof {proof.name}", *contents_of(proof)) as stale:
        if stale:
            assert_holds(proof, tmp_path)


def test_a_proof_that_is_quickest_is_made_each_time(tmp_path: Path) -> None:
    (proof,) = (each for each in PROOFS if each.name == QUICKEST)
    assert_holds(proof, tmp_path)


def assert_holds(proof: Proof, folder: Path) -> None:
    found = run(proof, folder)
    assert found and [f"{f.property}: {f.status}, {f.mutant}" for f in found if not f.good] == []


class Saturating(wiring.Component):
    """A counter that stays at nine, and never at fifteen."""

    up: Signal
    count: Signal

    def __init__(self) -> None:
        super().__init__({"up": In(1), "count": Out(4)})

    def elaborate(self, platform) -> Module:
        m = Module()
        with m.If(self.up & (self.count != 9)):
            m.d.sync += self.count.eq(self.count + 1)
        return m


def saturating() -> Harness:
    dut = Saturating()
    h = Harness(dut)
    idle = Signal()
    h.m.d.comb += idle.eq(~dut.up)
    h.prove("true", "", dut.count <= 9)
    h.prove("wrong", "", dut.count <= 8)
    h.prove("wrong_later", "", dut.count <= 8, cycles=9)
    h.prove("wrong_in_time", "", dut.count <= 8, cycles=10)
    h.lemma("small", "", dut.count < 10)
    h.prove("by_lemma", "", dut.count < 11)
    h.prove("empty", "", idle | dut.up)
    h.cover("nine", "", dut.count == 9)
    h.cover("ten", "", dut.count == 10)
    return h


def test_says_what_is_wrong_with_a_property(tmp_path: Path) -> None:
    found = {f.property: f for f in run(Proof("tests", "count", saturating, mutants=40), tmp_path)}
    assert found["true"].good and found["true"].status == "never" and found["true"].mutant
    assert not found["wrong"].good and found["wrong"].status == "high"
    assert found["wrong"].depth == 10
    assert found["wrong_later"].good and found["wrong_later"].method == "BMC 9"
    assert not found["wrong_in_time"].good and found["wrong_in_time"].depth == 10
    assert found["by_lemma"].good, "a mutant breaks it, although it breaks the lemma as well"
    assert not found["empty"].good, "no mutant breaks it: it says nothing about the component"
    assert found["nine"].good and found["nine"].depth == 10
    assert not found["ten"].good


def test_an_assumption_may_leave_nothing_to_cover(tmp_path: Path) -> None:
    def still() -> Harness:
        dut = Saturating()
        h = Harness(dut)
        h.assume(~dut.up)
        h.prove("zero", "", dut.count == 0)
        h.cover("one", "", dut.count == 1)
        return h

    found = {f.property: f for f in run(Proof("tests", "still", still, mutants=40), tmp_path)}
    assert found["zero"].good
    assert not found["one"].good


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_the_page_has_each_property() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/proofs.md").read_text()
    for proof in PROOFS:
        for text in proof.harness().properties.values():
            assert f"| {proof.block} | {proof.case} | {text} |" in page, "make prove PAGE=1"
    gc.collect()  # what is not used complains as it goes
