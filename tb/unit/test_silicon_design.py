"""Designs as blocks, and blocks as gates."""

from collections import Counter

from amaranth.back import rtlil
from amaranth.hdl import DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite_rtl.lib.apart import apart
from tpulite_silicon.budget import Budget, excesses, read_budgets, write_budgets
from tpulite_silicon.design import Design, chip_design
from tpulite_silicon.ecp5 import sizes
from tpulite_silicon.place import (
    Options,
    on_global_networks,
    scanned,
    tables_of,
    with_blockages,
)
from tpulite_silicon.report import measure


class _Counter(wiring.Component):
    """Adds its input to a register."""

    def __init__(self, width: int) -> None:
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.sync += self.o.eq(self.o + self.i)
        return m


class _Chain(wiring.Component):
    """Counters in a row, the first wider; between them two memories, a small and a large one."""

    def __init__(self) -> None:
        super().__init__({"i": In(8), "o": Out(8)})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.wide = wide = _Counter(24)
        m.submodules.first = first = _Counter(8)
        m.submodules.second = second = _Counter(8)
        value = Signal(8)
        m.d.comb += [wide.i.eq(self.i), first.i.eq(wide.o[16:]), value.eq(first.o)]
        for name, depth in (("small", 4), ("large", 256)):
            memory = Memory(shape=8, depth=depth, init=[])
            m.submodules[name] = memory
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [write.addr.eq(value), read.addr.eq(value), write.data.eq(value)]
            m.d.comb += [write.en.eq(1), read.en.eq(1)]
            value = read.data
        m.d.comb += [second.i.eq(value), self.o.eq(second.o)]
        return m


class _Parity(wiring.Component):
    def __init__(self, *, alone: bool) -> None:
        self.alone = alone
        super().__init__({"i": In(16), "o": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        parity = Signal()
        m.d.comb += [parity.eq(self.i.xor()), self.o.eq(parity)]
        if self.alone:
            apart(parity)
        return m


class _Parities(wiring.Component):
    """The same parity twice, the second perhaps mapped apart."""

    def __init__(self, *, alone: bool) -> None:
        self.alone = alone
        super().__init__({"i": In(16), "o": Out(2)})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.first = first = _Parity(alone=False)
        m.submodules.second = second = _Parity(alone=self.alone)
        m.d.comb += [part.i.eq(self.i) for part in (first, second)]
        m.d.comb += [self.o[0].eq(first.o), self.o[1].eq(second.o)]
        return m


def chain() -> Design:
    return Design.parse(rtlil.convert(_Chain(), name="chain", emit_src=False), "chain")


def test_equal_modules_are_one_block():
    design = chain()
    children = design.modules[design.top].children
    assert children["first"] == children["second"] != children["wide"]
    assert len(list(design.blocks())) == 1 + len(set(children.values()))


def test_the_name_of_a_block_follows_from_its_contents():
    assert chain().top == chain().top


def test_blocks_become_gates_and_large_memories_macros():
    found = measure(chain())
    blocks = {block["name"]: block for block in found["blocks"]}
    assert blocks["first"]["gates"] == blocks["second"]["gates"] < blocks["wide"]["gates"]
    assert 4 * 8 * 4 < blocks["chip"]["gates"] < 500  # flip-flops of the small one, not the large
    assert blocks["chip"]["end"].startswith("small[")
    assert blocks["second"]["start"] == "large"
    assert blocks["wide"]["end"].startswith("wide.o[")
    assert 10 < blocks["wide"]["fo4"] < 25


def test_a_flat_design_is_one_block_of_the_same_registers():
    blocks, flat = sizes(chain()), sizes(chain().flat())
    assert [block["name"] for block in flat["blocks"]] == ["chip"]
    assert flat["chip"]["ff"] == blocks["chip"]["ff"]
    assert flat["chip"]["lut"] <= blocks["chip"]["lut"]


def test_a_component_may_be_mapped_apart():
    """Together both are one; apart, neither knows of the other. The netlist is flat either way."""
    for alone, tables in ((False, 5), (True, 10)):
        text = rtlil.convert(_Parities(alone=alone), name="parities", emit_src=False)
        found = sizes(Design.parse(text, "parities").flat())
        assert [block["name"] for block in found["blocks"]] == ["chip"]
        assert found["chip"]["lut"] == tables


def test_blocks_become_cells_of_an_ecp5_and_their_sum():
    found = sizes(chain())
    blocks = {block["name"]: block for block in found["blocks"]}
    assert blocks["first"]["ff"] == blocks["second"]["ff"] == 8
    assert blocks["wide"]["ff"] == 24
    assert found["chip"]["ff"] == sum(block["ff"] for block in found["blocks"])
    assert found["chip"]["bram"] == 1  # the large memory; the small one is lookup tables


def _flip_flop(reset: int, q: int) -> dict:
    return {"type": "TRELLIS_FF", "connections": {"LSR": [reset], "Q": [q]}}


def test_resets_of_many_registers_have_a_global_network():
    """2 is a register's and of many, 3 a register's and of few, 4 of many and no register's."""
    cells = {f"r{reset}": _flip_flop(9, reset) for reset in (2, 3)}
    for reset, count in ((2, 600), (3, 400), (4, 600)):
        cells |= {f"{reset}_{i}": _flip_flop(reset, 10 + i) for i in range(count)}
    netnames = {"all": {"bits": ["0", 2, 3, 4, *range(9, 700)]}}
    top = {"attributes": {"top": "1"}, "cells": cells, "netnames": netnames}
    found = on_global_networks({"modules": {"top": top}})["modules"]["top"]["cells"]
    (network,) = (cell["connections"] for cell in found.values() if cell["type"] == "DCCA")
    assert network["CLKI"] == [2] and network["CLKO"] == [700]
    resets = Counter(c["connections"]["LSR"][0] for c in found.values() if c["type"] != "DCCA")
    assert resets == {700: 600, 3: 400, 4: 600, 9: 2}


def test_memories_are_what_the_configuration_says():
    for form in ("generic", "block"):
        config, build = Config(array_size=4, ub_rows=64, acc_rows=16), Build(memories=form)
        texts = [module.rtlil for module in chip_design(config, build).modules.values()]
        assert any("ram_style" in text for text in texts) == (form == "block")


def test_registers_around_the_ports_leave_four_pins():
    whole = scanned(chain())
    top = whole.modules[whole.top]
    assert {name: width for name, _, width in top.ports} == {"clk": 1, "rst": 1, "i": 1, "o": 1}
    assert list(top.children) == ["dut"]


def test_a_clock_of_another_domain_is_the_one_clock():
    """Blocks that a soft reset reaches have a domain of their own."""
    counter = DomainRenamer("engines")(_Counter(8))
    whole = scanned(Design.parse(rtlil.convert(counter, name="c", emit_src=False), "c"))
    top = whole.modules[whole.top]
    assert "connect \\engines_clk \\clk [0]\n" in top.rtlil
    assert "connect \\engines_rst \\into [8]\n" in top.rtlil


def test_only_growth_beyond_noise_exceeds_a_budget():
    block = {"name": "b", "fo4": 20.0, "levels": 9, "gates": 1000, "start": "x", "end": "y"}
    assert read_budgets(write_budgets({"blocks": [block]})) == [Budget("b", 20.0, 1000)]
    budgets = [Budget("b", 19.5, 990)]
    assert excesses({"blocks": [block]}, budgets) == []
    slower = block | {"fo4": 22.0}
    assert excesses({"blocks": [slower]}, budgets) == [
        "b: a path of 22.0 FO4, 19.5 is its budget, from x to y"
    ]
    larger = block | {"gates": 1200}
    assert excesses({"blocks": [larger]}, budgets) == ["b: 1,200 gates, 990 is its budget"]
    new = block | {"name": "new"}
    assert excesses({"blocks": [new]}, budgets) == ["new has no budget: 20.0 FO4, 1,000 gates"]


def test_nextpnr_rips_up_for_a_frequency_only():
    assert " ".join(Options(alternate=True).words(3)) == (
        "--freq 100 --seed 3 --router router2 --placer heap --placer-heap-timingweight 10 "
        "--router2-alt-weights"
    )
    words = Options(mhz=60, placer="static").words(1)
    assert words[:2] == ["--freq", "60"] and words[-1] == "--tmg-ripup" and "static" in words


def test_carry_cells_and_small_rams_are_tables_too():
    kinds = ("LUT4", "LUT4", "CCU2C", "TRELLIS_DPR16X4", "TRELLIS_FF", "DP16KD")
    top = {"attributes": {"top": 1}, "cells": {str(i): {"type": k} for i, k in enumerate(kinds)}}
    assert tables_of({"modules": {"top": top}}) == 2 + 2 + 4


def test_one_of_some_rows_of_tiles_is_blocked():
    memories = {"25": {13, 25, 37}, "45": {10, 22, 34, 46, 58}, "85": set(range(10, 94, 12))}
    rows = {}
    for part, without_logic in memories.items():
        top = {"attributes": {"top": 1}, "cells": {"logic": {}}}
        assert with_blockages({"modules": {"top": top}}, part, 0)["modules"]["top"] is top
        assert list(top["cells"]) == ["logic"]
        with_blockages({"modules": {"top": top}}, part, 6)
        blocked = [
            cell["attributes"]["BEL"] for name, cell in top["cells"].items() if name != "logic"
        ]
        assert len(set(blocked)) == len(blocked)
        rows[part] = {int(place.split("/")[1][1:]) for place in blocked}
        assert rows[part] and not rows[part] & without_logic
        columns = {"25": 68, "45": 87, "85": 122}[part]
        assert len(blocked) == len(rows[part]) * columns * 8  # all halves of all slices
    assert rows["45"] == set(range(2, 70, 6))
