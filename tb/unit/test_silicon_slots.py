"""Slots of a Gowin part: what a netlist takes, and what does not fit."""

import json
from itertools import pairwise

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tpulite_silicon import gw5a
from tpulite_silicon.design import Design
from tpulite_silicon.place import scanned, top_of
from tpulite_silicon.slots import slots_of

_OUTPUTS = ("F", "Q", "SUM", "COUT", "DO")


def _top(*cells: tuple[str, dict[str, int | str]]) -> dict:
    """Return a module of cells, each a type and its wires by port."""
    return {
        "cells": {
            f"cell{index}": {
                "type": kind,
                "connections": {port: [bit] for port, bit in ports.items()},
                "port_directions": {
                    port: "output" if port in _OUTPUTS else "input" for port in ports
                },
            }
            for index, (kind, ports) in enumerate(cells)
        }
    }


def _carry(first: int, last: int, cin: int | str) -> list[tuple[str, dict[str, int | str]]]:
    """Return carry cells whose carries are wires ``first`` to ``last``."""
    wires = [cin, *range(first, last + 1)]
    return [("ALU", {"CIN": i, "COUT": o}) for i, o in pairwise(wires)]


def test_a_flip_flop_shares_a_slot_only_with_its_lookup_table() -> None:
    table = ("LUT4", {"I0": 1, "F": 2})
    assert slots_of(_top(table, ("DFFRE", {"D": 2, "Q": 3}))) == 1
    second = ("DFF", {"D": 2, "Q": 4})
    assert slots_of(_top(table, ("DFFRE", {"D": 2, "Q": 3}), second)) == 2
    assert slots_of(_top(("DFF", {"D": 3, "Q": 4}), ("DFF", {"D": 4, "Q": 5}))) == 2


def test_a_ram_takes_a_tile_and_what_it_is_read_into_more() -> None:
    assert slots_of(_top(("RAM16SDP4", {"DO": 1}), ("DFF", {"D": 1, "Q": 2}))) == 9


def test_a_carry_chain_takes_an_even_number_and_its_ends_in_logic_one_each() -> None:
    assert slots_of(_top(*_carry(1, 4, "0"))) == 4
    assert slots_of(_top(*_carry(1, 3, "0"))) == 4
    user = ("LUT1", {"I0": 4, "F": 90})
    assert slots_of(_top(*_carry(1, 4, "0"), user)) == 6 + 1
    assert slots_of(_top(("LUT1", {"F": 9}), *_carry(1, 4, 9), user)) == 1 + 6 + 1


def test_a_carry_that_logic_reads_ends_a_chain_and_begins_another() -> None:
    reader = ("LUT1", {"I0": 2, "F": 90})
    assert slots_of(_top(*_carry(1, 4, "0"), reader)) == (2 + 1 + 1) + (1 + 2 + 1) + 1


def test_a_sum_and_the_flip_flop_behind_it_take_a_slot_each() -> None:
    chain = _carry(1, 2, "0")
    chain[0][1]["SUM"] = 50
    assert slots_of(_top(*chain, ("DFF", {"D": 50, "Q": 51}))) == 3


def test_what_needs_more_slots_than_the_part_has_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(gw5a, "SLOTS", 1)
    flip_flops = [("DFF", {"D": 1, "Q": 2}), ("DFF", {"D": 2, "Q": 3})]
    assert gw5a.require_slots(_top(flip_flops[0])) == 1
    with pytest.raises(gw5a.OverfullError, match=r"^2 slots needed; a GW5AST-138 has 1\."):
        gw5a.require_slots(_top(*flip_flops))


class _Rows(wiring.Component):
    """Sixteen rows of 32 bits that are written and read with a clock."""

    def __init__(self) -> None:
        super().__init__({"i": In(32), "o": Out(32), "row": In(4), "other": In(4)})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=32, depth=16, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [write.addr.eq(self.row), write.data.eq(self.i), write.en.eq(1)]
        m.d.comb += [read.addr.eq(self.other), read.en.eq(1), self.o.eq(read.data)]
        return m


@pytest.mark.parametrize(("memories", "kind"), [("generic", "RAM16SDP4"), ("block", "SDPX9B")])
def test_few_rows_are_block_ram_where_that_is_asked_for(memories: str, kind: str) -> None:
    text = rtlil.convert(_Rows(), name="rows", emit_src=False)
    design = scanned(Design.parse(text, "rows"))
    top = top_of(json.loads(gw5a.netlist_of(design, memories)))
    kinds = [cell["type"] for cell in top["cells"].values()]
    rams = {"RAM16SDP4", "SDPX9B"} & set(kinds)
    assert rams == {kind}
