"""Constant inputs that are connected to wires do not change what a cell does."""

import copy
import random
from itertools import product

import pytest

from tpulite_silicon.grounds import without_grounds

BITS = range(2, 6)  # of Yosys's JSON; those of constants are text


def changed(kind: str, connections: dict, parameters: dict) -> dict:
    cell = {"type": kind, "connections": connections, "parameters": parameters}
    module = {"cells": {"cell": copy.deepcopy(cell)}}
    without_grounds(module)
    assert module["cells"]["cell"]["type"] == kind
    return module["cells"]["cell"]


def carry(cell: dict, half: str, known: dict) -> tuple[str, str]:
    """Return whether half a carry cell passes a carry, and whether it makes one if not."""
    table = cell["parameters"][f"INIT{half}"]
    pins = [known[cell["connections"][f"{pin}{half}"][0]] for pin in "ABCD"]
    passes = table[-1 - sum(value << i for i, value in enumerate(pins))]
    return passes, table[-1 - (pins[0] | pins[1] << 1)]


@pytest.mark.parametrize("half", "01")
@pytest.mark.parametrize("constant", ["C", "D", "CD", "A", ""])
def test_carry_cells_are_the_same(half: str, constant: str) -> None:
    pins = {f"{pin}{half}": [2 + i] for i, pin in enumerate("ABCD")}
    pins |= {f"{pin}{half}": ["0"] for pin in constant}
    other = {f"{pin}{1 - int(half)}": ["1"] for pin in "ABCD"}
    for _ in range(20):
        tables = {f"INIT{n}": f"{random.getrandbits(16):016b}" for n in "01"}
        before = {"connections": pins | other, "parameters": tables}
        after = changed("CCU2C", **before)
        alone = constant in ("C", "D")
        assert (["0"] in after["connections"].values()) == (bool(constant) and not alone)
        for values in product((0, 1), repeat=len(BITS)):
            known = {"0": 0, "1": 1, **dict(zip(BITS, values, strict=True))}
            for each in "01":
                assert carry(after, each, known) == carry(before, each, known)


def row(address: list, value: int) -> int:
    """Return the row of a RAM cell for a row of the RAM, whose address bits are 2, 3, ..."""
    known = {"0": 0, **{bit: value >> i & 1 for i, bit in enumerate(BITS)}}
    return sum(known[bit] << i for i, bit in enumerate(address))


@pytest.mark.parametrize("wires", range(5))
def test_rams_have_as_many_rows_and_hold_what_they_held(wires: int) -> None:
    init = f"{random.getrandbits(64):064b}"
    address = [*BITS][:wires] + ["0"] * (4 - wires)
    pins = {"RAD": list(address), "WAD": list(address), "DI": ["0"] * 4}
    after = changed("TRELLIS_DPR16X4", pins, {"INITVAL": init})
    assert after["connections"]["RAD"] == after["connections"]["WAD"]
    assert ("0" in after["connections"]["RAD"]) == (wires == 0)
    rows = [row(after["connections"]["RAD"], value) for value in range(1 << wires)]
    assert len(set(rows)) == len(rows)
    words = [init[len(init) - 4 * (r + 1) :][:4] for r in range(16)]
    held = after["parameters"]["INITVAL"]
    assert len(held) == len(init)
    assert [held[len(held) - 4 * (r + 1) :][:4] for r in rows] == words[: len(rows)]


def test_a_ram_that_is_written_at_all_rows_keeps_its_addresses() -> None:
    pins = {"RAD": [2, 3, 4, "0"], "WAD": [2, 3, 4, 5], "DI": [6] * 4}
    after = changed("TRELLIS_DPR16X4", pins, {"INITVAL": "0" * 64})
    assert after["connections"] == pins
