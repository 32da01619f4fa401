"""Carry chains of an ECP5 without the cells that nextpnr puts at their ends."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

__all__ = ["without_feeds"]

_CELL = "CCU2C"
_NOTHING = ["x"]
"""What an open pin is connected to; nextpnr wants to see both ends of a chain."""
_CONSTANTS = {"0": f"{0:016b}", "1": f"{0b1000:016b}"}
"""Table of a half whose inputs are high and whose carry is a constant: no carry passes, and its own
is what the table says of A and B if the others were low."""


def without_feeds(module: dict) -> None:
    """Change carry chains so that nextpnr need not feed a carry in before, or out behind, them.

    It puts a cell behind a chain whose last carry has a name, even if nobody uses it, and one
    before a chain whose first carry is a constant. A carry that nobody uses loses its name here.
    Where the last cell has only one bit, and nobody else looks at carries between cells, all bits
    move up by half a cell, and the first half makes the constant.

    Parameters
    ----------
    module : dict
        Of Yosys's JSON, synthesized for an ECP5.
    """
    cells = module["cells"]
    used = Counter(
        bit
        for cell in cells.values()
        for pin, bits in cell["connections"].items()
        if cell["port_directions"][pin] == "input"
        for bit in bits
    )
    for port in module["ports"].values():
        used.update(port["bits"] if port["direction"] == "output" else [])
    for pins in (cell["connections"] for cell in cells.values() if cell["type"] == _CELL):
        for pin in ("S0", "S1", "COUT"):
            pins[pin] = pins[pin] if pin in pins and used[pins[pin][0]] else _NOTHING
    for links in list(_chains(cells)):
        carry = links[0]["connections"]["CIN"][0]
        last = links[-1]["connections"]
        spare = last["S1"] == last["COUT"] == _NOTHING
        inner = (used[link["connections"]["COUT"][0]] == 1 for link in links[:-1])
        if carry in _CONSTANTS and spare and all(inner):
            halves = list(chain.from_iterable(_halves(link) for link in links))
            first = {pin: ["1"] for pin in "ABCD"} | {"S": _NOTHING, "INIT": _CONSTANTS[carry]}
            moved = [first, *halves[:-1]]
            for link, pair in zip(links, zip(moved[::2], moved[1::2], strict=True), strict=True):
                _put(link, pair)
            links[0]["connections"]["CIN"] = _NOTHING


def _chains(cells: dict[str, dict]) -> Iterator[list[dict]]:
    """Yield the cells of each chain in order."""
    carries = [cell for cell in cells.values() if cell["type"] == _CELL]
    behind = {cell["connections"]["CIN"][0]: cell for cell in carries}
    driven = {cell["connections"]["COUT"][0] for cell in carries}
    for cell in carries:
        if (carry := cell["connections"]["CIN"]) != _NOTHING and carry[0] in driven:
            continue
        links = [cell]
        while (carry := links[-1]["connections"]["COUT"]) != _NOTHING and carry[0] in behind:
            links.append(behind[carry[0]])
        yield links


def _halves(cell: dict) -> Iterator[dict]:
    """Yield what each half of a cell is connected to, by pins without numbers, and its table."""
    for half in "01":
        found = {pin: cell["connections"][f"{pin}{half}"] for pin in "ABCDS"}
        yield found | {"INIT": cell["parameters"][f"INIT{half}"]}


def _put(cell: dict, halves: tuple[dict, ...]) -> None:
    for number, half in enumerate(halves):
        cell["parameters"][f"INIT{number}"] = half["INIT"]
        cell["connections"] |= {f"{pin}{number}": half[pin] for pin in "ABCDS"}
