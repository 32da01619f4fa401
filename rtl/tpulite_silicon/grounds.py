"""Cells of an ECP5 whose constant inputs take no wires.

nextpnr drives what it cannot do without by one net all over the chip: addresses of small RAMs that
have fewer rows than a cell, and inputs of carry cells beside one that is no constant.
"""

__all__ = ["without_grounds"]

_ROWS, _WORD = 16, 4


def without_grounds(module: dict) -> None:
    """Connect constant inputs to a wire that the same cell has, and change what it holds.

    Parameters
    ----------
    module : dict
        Of Yosys's JSON, synthesized for an ECP5.
    """
    for cell in module["cells"].values():
        if cell["type"] == "TRELLIS_DPR16X4":
            _repeat_addresses(cell)
        elif cell["type"] == "CCU2C":
            for half in "01":
                for pin, other in ("CD", "DC"):
                    _repeat_input(cell, half, pin, other)


def _repeat_addresses(cell: dict) -> None:
    """Let the last address bit that is a wire be those above it, too: other rows are used."""
    read, write = (cell["connections"][port] for port in ("RAD", "WAD"))
    constant = [read[i] == write[i] == "0" for i in range(len(read))]
    if not any(constant) or all(constant):
        return
    last = max(i for i, low in enumerate(constant) if not low)
    init = cell["parameters"].get("INITVAL", "x" * _ROWS * _WORD)
    words = [init[len(init) - _WORD * (row + 1) :][:_WORD] for row in range(_ROWS)]
    moved = ["x" * _WORD] * _ROWS
    for row in range(1 << last + 1):
        high = row >> last and _ROWS - (2 << last)
        moved[row | high] = words[row]
    cell["parameters"]["INITVAL"] = "".join(reversed(moved))
    for address in (read, write):
        address[last + 1 :] = [address[last]] * (len(address) - last - 1)


def _repeat_input(cell: dict, half: str, pin: str, other: str) -> None:
    """Let a low C or D be the other one. What generates a carry looks at neither."""
    connections = cell["connections"]
    wire = connections.get(f"{other}{half}", ["x"])
    if connections.get(f"{pin}{half}") != ["0"] or wire[0] in ("0", "1", "x"):
        return
    connections[f"{pin}{half}"] = list(wire)
    name = f"INIT{half}"
    table = cell["parameters"][name][::-1]
    low = ~(1 << "ABCD".index(pin))
    cell["parameters"][name] = "".join(table[place & low] for place in range(16))[::-1]
