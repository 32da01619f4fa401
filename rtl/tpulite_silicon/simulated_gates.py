"""The gates of the generic library, to simulate."""

import re

from tpulite_rtl.lib.memory import MACRO
from tpulite_silicon.library import CELLS, FLIPFLOP
from tpulite_silicon.simulation import BlockWriter, Technology
from tpulite_silicon.synthesis import gates_of
from tpulite_verilated.library import macro_model

__all__ = ["SIMULATED_GATES"]

_OPERATORS = str.maketrans("!*+", "~&|")
"""Verilog's operators for those of Liberty, which bind alike."""

_FUNCTIONS = {
    **{name: cell.function.translate(_OPERATORS) for name, cell in CELLS.items()},
    "MUXI2": "~(S ? B : A)",
}
"""Output of each gate. If a multiplexer's inputs are equal, an unknown select does not matter, as
in the models of foundries; a sum of products would be unknown."""


def _write(writer: BlockWriter, name: str, cell: dict) -> bool:
    kind, pins = cell["type"], cell["connections"]
    if kind in _FUNCTIONS:
        function = re.sub(r"[A-Z]", lambda pin: writer.net(pins[pin[0]][0]), _FUNCTIONS[kind])
        writer.assign(pins["Y"][0], function)
    elif kind == FLIPFLOP.name:
        writer.register(pins["C"][0], pins["Q"][0], writer.net(pins["D"][0]))
    elif kind == "$mem_v2":
        _write_macro(writer, name, cell)
    else:
        return False
    return True


def _write_macro(writer: BlockWriter, name: str, cell: dict) -> None:
    width, depth = (int(cell["parameters"][size], 2) for size in ("WIDTH", "SIZE"))
    pins = cell["connections"]
    (enable,) = set(pins["WR_EN"])  # rows are written whole
    writer.instance(
        f"{MACRO} #(.WIDTH({width}), .DEPTH({depth}))",
        name,
        {
            "clk": pins["RD_CLK"],
            "write_enable": [enable],
            "write_row": pins["WR_ADDR"],
            "write_data": pins["WR_DATA"],
            "read_enable": pins["RD_EN"],
            "read_row": pins["RD_ADDR"],
        },
        {"read_data": pins["RD_DATA"]},
    )


SIMULATED_GATES = Technology(gates_of, _write, macro_model())
"""Gates, flip-flops and RAM macros, of a design that is elaborated for
the target ``gates`` of :class:`tpulite.arch.build.Build`."""
