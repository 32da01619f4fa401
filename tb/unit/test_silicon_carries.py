"""Carry chains whose ends nextpnr need not feed do what they did."""

import copy
import random
from collections import Counter

from amaranth.hdl import Module, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite_silicon.carries import without_feeds
from tpulite_silicon.design import elaborated
from tpulite_silicon.synthesis import ecp5_cells_of

WIDTHS = range(9, 15)  # those of fewer bits are lookup tables


class Sums(wiring.Component):
    """Sums, differences and comparisons of some widths: chains with either carry, used or not."""

    def __init__(self) -> None:
        super().__init__(
            {
                **{f"{operand}{width}": In(width) for operand in "ab" for width in WIDTHS},
                **{f"sum{width}": Out(width) for width in WIDTHS},
                **{f"difference{width}": Out(width) for width in WIDTHS},
                **{f"less{width}": Out(unsigned(1)) for width in WIDTHS},
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for width in WIDTHS:
            a, b = getattr(self, f"a{width}"), getattr(self, f"b{width}")
            m.d.comb += [
                getattr(self, f"sum{width}").eq(a + b),
                getattr(self, f"difference{width}").eq(a - b),
                getattr(self, f"less{width}").eq(b < a),
            ]
        return m


def outputs(block: dict, inputs: dict[str, int]) -> dict[str, int]:
    """Return the outputs of a netlist of tables and carries; what is open is drawn."""
    known: dict[int | str, int] = {"0": 0, "1": 1}
    for name, number in inputs.items():
        known |= {bit: number >> i & 1 for i, bit in enumerate(block["ports"][name]["bits"])}
    drivers = {
        bit: (cell, pin)
        for cell in block["cells"].values()
        for pin, bits in cell["connections"].items()
        for bit in bits
        if cell["port_directions"][pin] == "output"
    }

    def table(cell: dict, half: str, pins: str = "ABCD") -> int:
        place = sum(
            value(cell["connections"][f"{pin}{half}"][0]) << i for i, pin in enumerate(pins)
        )
        return int(cell["parameters"][f"INIT{half}"][-1 - place])

    def value(bit: int | str) -> int:
        if bit == "x":
            return random.randrange(2)
        if bit not in known:
            cell, pin = drivers[bit]
            if cell["type"] == "LUT4":
                known[bit] = table(cell, "")
            else:
                assert cell["type"] == "CCU2C"
                carry = value(cell["connections"]["CIN"][0])
                for half in "01":
                    passes = table(cell, half)
                    if pin == f"S{half}":
                        known[bit] = passes ^ carry
                    carry = carry if passes else table(cell, half, "AB")
                if pin == "COUT":
                    known[bit] = carry
        return known[bit]

    return {
        name: sum(value(bit) << i for i, bit in enumerate(port["bits"]))
        for name, port in block["ports"].items()
        if port["direction"] == "output"
    }


def test_chains_compute_the_same_whatever_comes_from_before_them():
    design = elaborated(Sums())
    before = ecp5_cells_of(design, design.modules[design.top])
    after = copy.deepcopy(before)
    without_feeds(after)
    once = copy.deepcopy(after)
    without_feeds(after)
    assert after == once

    pins = Counter(
        (pin, *cell["connections"][pin])
        for cell in after["cells"].values()
        if cell["type"] == "CCU2C"
        for pin in ("CIN", "COUT")
    )
    # At least sums: of 9, 11 and 13 bits they make their own carry. Differences may be comparisons.
    assert pins["CIN", "x"] >= 3
    assert pins["COUT", "x"] >= 6
    assert len(after["cells"]) == len(before["cells"])
    for _ in range(200):
        ports = [name for name, port in before["ports"].items() if port["direction"] == "input"]
        inputs = {name: random.getrandbits(16) for name in ports}
        assert outputs(after, inputs) == outputs(before, inputs)
        for width in WIDTHS:
            a, b = (inputs[f"{operand}{width}"] % (1 << width) for operand in "ab")
            found = outputs(after, inputs)
            assert found[f"sum{width}"] == (a + b) % (1 << width)
            assert found[f"less{width}"] == (b < a)


def test_carries_that_are_looked_at_stay_where_they_are():
    chain = {
        f"cell{i}": {
            "type": "CCU2C",
            "parameters": {"INIT0": "1001011010101010", "INIT1": "1001011010101010"},
            "port_directions": {
                **{f"{pin}{half}": "input" for pin in "ABCD" for half in "01"},
                **{"CIN": "input", "COUT": "output", "S0": "output", "S1": "output"},
            },
            "connections": {
                **{f"{pin}{half}": ["1"] for pin in "ABCD" for half in "01"},
                **{"CIN": [10] if i else ["0"], "COUT": [10 + i], "S0": [20 + i], "S1": [30 + i]},
            },
        }
        for i in range(2)
    }
    user = {"type": "LUT4", "port_directions": {"A": "input"}, "connections": {"A": [10]}}
    sums = {f"s{b}": {**user, "connections": {"A": [b]}} for b in (20, 21, 30)}
    for looked_at in (False, True):
        cells = copy.deepcopy(chain) | sums | ({"user": user} if looked_at else {})
        without_feeds({"cells": cells, "ports": {}})
        assert cells["cell0"]["connections"]["CIN"] == (["0"] if looked_at else ["x"])
        assert cells["cell1"]["connections"]["COUT"] == ["x"]
