"""Verilog of the chip for tools of others: plain names, expressions instead of processes."""

import re
from collections.abc import Mapping
from functools import partial

from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.collector import collector_paused
from tpulite_rtl.top import BOARD_PORTS, Chip
from tpulite_rtl.verilog import TOP

__all__ = ["portable_verilog"]

_ATTRIBUTES = ("generator", "top", "src", "full_case", "unused_bits", "amaranth.*")
_SCRIPT = "\n".join(
    [
        "read_rtlil <<end_of_chip\n{chip}\nend_of_chip",
        "proc",
        "opt_expr",
        "memory_collect",
        "opt_clean -purge",
        *(f"attrmap {mode}-remove {name}" for mode in ("", "-modattr ") for name in _ATTRIBUTES),
        "write_verilog",
    ]
)
"""Processes become expressions and registers; nets that nothing reads go."""

_NAME = re.compile(r'\\([^\s"\\]+)')
"""A public name of RTLIL."""

_FIRST_ROWS = re.compile(r"(?m)^  initial begin\n +(\w+)\[0\] = (\S+);\n(?: +\1\[\d+\] = \2;\n)+")
"""Rows of a memory from the first on that begin with equal values."""

_WIRE_OF_PORT = re.compile(r"(?m)(^  (?:in|out)put ((?:\[\d+:0\] )?\w+;)\n)  wire \2\n")
_REGISTER_OF_PORT = re.compile(r"(?m)^  output ((?:\[\d+:0\] )?\w+);\n  reg (\1(?: = [^;]+)?;)\n")
_MODULE = re.compile(r"(?ms)^module (?P<name>\w+)(?P<body>.*?^endmodule\n)\n?")
_INSTANCE = re.compile(r"(?m)(?<=^  )\w+(?= \w+ \($)")
_KEYWORD = re.compile(r"\\(\w+) ")
"""A name that is a keyword of SystemVerilog, as Yosys escapes it."""


@collector_paused()
def portable_verilog(config: Config, build: Build | None = None) -> str:
    """Return synthesizable Verilog without ports for traces; equal arguments give equal texts.

    Names are Verilog's simple identifiers. Logic is that of
    :func:`tpulite_rtl.verilog.chip_verilog`, register by register.

    Parameters
    ----------
    config : Config
        The machine.
    build : Build, optional
        How it is written.
    """
    chip = Chip(config)
    ports = [getattr(chip, name) for name in BOARD_PORTS]
    text = rtlil.convert(chip, name=TOP, platform=build, ports=ports, emit_src=False)
    yosys = find_yosys(lambda version: version >= (0, 40))
    script = _SCRIPT.format(chip=_with_plain_names(text))
    text = yosys.run(["-q", "-"], script, ignore_warnings=True)
    text = _KEYWORD.sub(r"\1_", text)
    text = _WIRE_OF_PORT.sub(r"\1", _FIRST_ROWS.sub(_loop, text))
    return _modules_once(_REGISTER_OF_PORT.sub(r"  output reg \2\n", text))


def _with_plain_names(text: str) -> str:
    """Return RTLIL whose public names are simple identifiers, and whose anonymous nets are private.

    A name stands for one thing in each module, so one map serves all of them.
    """
    found = set(_NAME.findall(text))
    taken = {name for name in found if name.isidentifier()}
    names = {name: f"\\{name}" for name in taken}
    for name in sorted(found - taken):
        if name[1:].isdecimal():  # the value of an expression
            names[name] = f"$net{name}"
            continue
        plain = re.sub(r"\W+", "_", name).strip("_")
        while plain in taken:
            plain += "_"
        taken.add(plain)
        names[name] = f"\\{plain}"
    return _NAME.sub(lambda match: names[match[1]], text)


def _loop(match: re.Match[str]) -> str:
    """Return a loop that sets the first rows of a memory."""
    name, value = match.groups()
    rows, row = match[0].count("\n") - 1, f"{name}_i"
    return (
        f"  integer {row};\n"
        "  initial begin\n"
        f"    for ({row} = 0; {row} < {rows}; {row} = {row} + 1) {name}[{row}] = {value};\n"
    )


def _modules_once(text: str) -> str:
    """Return Verilog in which equal modules are one, named as the first of them."""
    twins = _twins(text)
    while twins:
        text = _MODULE.sub(partial(_unless_in, twins), text)
        text = _INSTANCE.sub(partial(_renamed, twins), text)
        twins = _twins(text)
    return text


def _twins(text: str) -> dict[str, str]:
    """Return the names of modules that equal an earlier one, and its name."""
    first: dict[str, str] = {}
    twins: dict[str, str] = {}
    for found in _MODULE.finditer(text):
        name = first.setdefault(found["body"], found["name"])
        if name != found["name"]:
            twins[found["name"]] = name
    return twins


def _unless_in(twins: Mapping[str, str], found: re.Match[str]) -> str:
    return "" if found["name"] in twins else found[0]


def _renamed(twins: Mapping[str, str], found: re.Match[str]) -> str:
    return twins.get(found[0], found[0])
