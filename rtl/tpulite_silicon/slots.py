"""Slots of a Gowin part that a netlist takes: each has a lookup table, a flip-flop and a carry.

nextpnr lets a flip-flop share a slot with nothing but the cell that drives it, and packs it only
with a lookup table. One behind another flip-flop, a RAM, a multiplier or a sum takes a slot alone.
"""

from collections import Counter

__all__ = ["slots_of"]

_RAM_SLOTS = 8
"""A RAM in lookup tables takes a whole tile."""

_FLIP_FLOPS = ("DFF", "DL")
_CONSTANTS = ("GND", "VCC")


def slots_of(top: dict) -> int:
    """Return how many slots nextpnr needs for a module of Yosys's JSON, synthesized for Gowin.

    Flip-flops may by chance come to lie beside the sum that drives them; they count.
    """
    drivers = {
        bit: (name, cell["type"])
        for name, cell in top["cells"].items()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "output"
        for bit in bits
    }
    kinds = Counter(cell["type"] for cell in top["cells"].values())
    flip_flops = [cell for kind in _FLIP_FLOPS for cell in _cells(top, kind)]
    feeding = (drivers.get(cell["connections"]["D"][0], ("", "")) for cell in flip_flops)
    paired = {name for name, kind in feeding if kind.startswith("LUT")}
    tables = sum(count for kind, count in kinds.items() if kind.startswith("LUT"))
    rams = sum(count for kind, count in kinds.items() if kind.startswith("RAM16"))
    alone = len(flip_flops) - len(paired)
    return tables + _RAM_SLOTS * rams + _carry_slots(top, drivers) + alone


def _cells(top: dict, kind: str) -> list[dict]:
    """Return the cells whose type begins with a word."""
    return [cell for cell in top["cells"].values() if cell["type"].startswith(kind)]


def _carry_slots(top: dict, drivers: dict) -> int:
    """Return the slots of carry chains: an even number each, one more for an end in logic."""
    users = Counter(
        bit
        for cell in top["cells"].values()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "input"
        for bit in bits
    )
    carries = {cell["connections"]["CIN"][0]: cell["connections"] for cell in _cells(top, "ALU")}
    outputs = {cell["connections"]["COUT"][0] for cell in _cells(top, "ALU")}
    total = 0
    for cell in _cells(top, "ALU"):
        carry = cell["connections"]["CIN"][0]
        if carry in outputs and users[carry] == 1:
            continue  # not the first of its chain
        constant = isinstance(carry, str) or drivers.get(carry, ("", ""))[1] in _CONSTANTS
        length = 0 if constant else 1
        following = cell["connections"]
        while True:
            length += 1
            carry = following["COUT"][0]
            if users[carry] != 1 or carry not in carries:
                length += users[carry] > 0
                break
            following = carries[carry]
        total += length + length % 2
    return total
