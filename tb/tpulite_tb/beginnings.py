"""What registers and memories begin with in Verilog: an ASIC ignores that, so that benches do."""

import re
from collections.abc import Callable

__all__ = ["beginning_with", "complemented"]

_INITIAL = re.compile(
    r"^( *(?:reg (?!\S*verilog_backend)[^=;]*=\s*|\w+\[\d+\] = (?=\d+'d))"
    r"(\d+)'([bhd]))([0-9a-fx]+);",
    re.MULTILINE,
)
"""Initial value of a register, but of the simulator's own, or of a word of a memory."""

_BASES = {"b": (2, "b"), "d": (10, "d"), "h": (16, "x")}


def beginning_with(source: str, draw: Callable[[int, int], int]) -> tuple[str, int]:
    """Return Verilog with other initial values, and how many there are.

    Parameters
    ----------
    source : str
        Verilog, as Yosys writes it.
    draw : callable
        Is given the bits of a register or of a word of a memory, and what it begins with, in which
        unknown bits are zero; gives what it shall begin with.
    """

    def other(match: re.Match[str]) -> str:
        before, bits, letter, digits = match.groups()
        base, form = _BASES[letter]
        return f"{before}{draw(int(bits), int(digits.replace('x', '0'), base)):{form}};"

    return _INITIAL.subn(other, source)


def complemented(source: str) -> str:
    """Return Verilog in which every bit begins with what it does not have after a reset."""
    return beginning_with(source, lambda bits, value: value ^ (1 << bits) - 1)[0]
