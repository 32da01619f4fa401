"""Verilog with coverage points, which carries in comments what they stand for.

A branch or a state is counted by ``cover``; a ``toggle`` by Verilator, of the signals that the
source names. Comments survive edits of other lines: the number of a line is only known to who runs
it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from amaranth.hdl import Fragment

from tpulite_tb.component_ports import component_ports
from tpulite_tb.coverage.instrument import COVER, instrument, place_of
from tpulite_tb.coverage.points import Point

__all__ = ["POINT", "VERILATOR_OPTIONS", "is_covered", "line_points", "points_of", "with_points"]

_LINES = "// coverage lines "
VERILATOR_OPTIONS = ["--coverage-toggle", "--coverage-user"]

POINT = "// coverage point "
"""What stands behind a line that has a point, before the point."""
_OFF, _ON = "/*verilator coverage_off*/", "/*verilator coverage_on*/"

_DECLARED = re.compile(r"^ *(?:input|output|inout|wire|reg) (?:\[\d+:\d+\] )?(\S+) *(\[|;|=)")
_SRC = re.compile(r'^ *\(\* src = "([^"]*):(\d+)" \*\)$')
_CONSTANT = re.compile(r"^ *assign (\S+) *= \d+'[bdh][0-9a-f]+;$")
_ELSE_ALONE = re.compile(r"\(\* full_case = 32'd1 \*\)\n(?! *(?:if|case[xz]?|\(\*)[ (*])")
"""Where Yosys forgets how a block begins: of a choice that constants leave only the default of."""
_CONTROL = ("clk", "rst")
_CLOCK = re.compile(r"^ *input clk;", re.MULTILINE)


def with_points(convert: Any, component: Any, *, name: str, **options: Any) -> str:
    """Convert a component to Verilog as :func:`amaranth.back.verilog.convert` does, with points.

    Parameters
    ----------
    convert : callable
        Amaranth's function.
    component : Elaboratable
        The design.
    name : str
        Name of the top module.
    **options
        Its other options; ``ports`` unless the component has a signature.
    """
    ports = options.pop("ports", None) or component_ports(component)
    fragment = Fragment.get(component, options.pop("platform", None))
    found = instrument(fragment)
    text = convert(fragment, name=name, ports=ports, **(options | _KEEP_PLACES))
    text = _ELSE_ALONE.sub("begin\n", text)
    lines = {_text(line): list(map(_text, ways)) for line, ways in found.lines.items()}
    bits = found.bits if _CLOCK.search(text) else []  # without a clock there are toggles alone
    body = "".join(chain.from_iterable(_module(m, bits, name) for m in _modules(text)))
    return f"{body}{_LINES}{json.dumps(lines)}\n"


_KEEP_PLACES = {"strip_internal_attrs": False, "emit_src": True}


def is_covered(source: str) -> bool:
    """Tell whether Verilog has points."""
    return _LINES in source


def points_of(source: str) -> dict[int, Point]:
    """Return the point of each line of Verilog that has one."""
    return {
        number: Point(*json.loads(line.partition(POINT)[2]))
        for number, line in enumerate(source.splitlines(), 1)
        if POINT in line
    }


def line_points(source: str) -> dict[Point, list[Point]]:
    """Return the statements of a design, and the points that execute each; none if always."""
    (text,) = re.findall(rf"^{_LINES}(.*)$", source, re.MULTILINE)
    return {
        Point(*json.loads(line)): [Point(*json.loads(way)) for way in ways]
        for line, ways in json.loads(text).items()
    }


def _text(point: Point) -> str:
    return json.dumps([point.kind, point.file, point.line, point.detail])


def _modules(text: str) -> Iterator[list[str]]:
    """Return the lines up to the end of each module; the last ones are behind all of them."""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        lines.append(line)
        if line.startswith("endmodule"):
            yield lines
            lines = []
    yield lines


def _module(lines: list[str], bits: list[list[Point]], top: str) -> Iterator[str]:
    names = _declared(lines)
    place = home = None
    ports: frozenset[str] = frozenset()
    for line in lines:
        if found := _SRC.match(line):
            place = place_of((found[1], int(found[2])))
            yield line
        elif line.startswith("module "):
            home = place
            ports = frozenset(re.findall(r"[^\s,()]+", line.partition("(")[2]))
            yield line
        elif found := _DECLARED.match(line):
            yield from _declaration(line, _toggle(found, names, ports, place, home))
            if not line.lstrip().startswith(("input", "output")):
                place = None
        elif line.startswith("endmodule"):
            yield from _covers(names, bits, top)
            yield line
        else:
            yield line


def _declared(lines: list[str]) -> dict[str, bool]:
    """Return the signals of a module, and whether others are parts of it, or it is constant."""
    constants = {found[1].removeprefix("\\") for line in lines if (found := _CONSTANT.match(line))}
    names = [found[1].removeprefix("\\") for line in lines if (found := _DECLARED.match(line))]
    parents = {name[: found.start()] for name in names for found in re.finditer(r"[.\[]", name)}
    return {name: name in parents or name in constants for name in names}


def _toggle(
    found: re.Match[str],
    names: Mapping[str, bool],
    ports: frozenset[str],
    place: tuple[str, int] | None,
    home: tuple[str, int] | None,
) -> Point | None:
    """Return the point of a signal: named in the source, or a port; not what is within another."""
    written, kind = found[1], found[2]
    name = written.removeprefix("\\")
    if names[name] or kind == "[" or name.startswith(("$", COVER)) or name in _CONTROL:
        return None
    if place is None:
        if written not in ports or home is None:
            return None
        place = home
    # Amaranth numbers signals of one name, even twice, and names those that have none.
    name = re.sub(r"(\$\d+)+(?=$|[.\[])", "", name)
    return None if name == "port" else Point("toggle", *place, name)


def _declaration(line: str, point: Point | None) -> Iterator[str]:
    if point is None:
        yield f"{_OFF}{line.rstrip()}{_ON}\n"
    else:
        yield f"{line.rstrip()} {POINT}{_text(point)}\n"


def _covers(names: Mapping[str, bool], bits: list[list[Point]], top: str) -> Iterator[str]:
    for name in names:
        if not name.startswith(COVER) or not bits:
            continue
        yield f"  always @(posedge {top}.clk) if (!{top}.rst) begin\n"
        for number, point in enumerate(bits[int(name.removeprefix(COVER))]):
            bit = f"{name}[{number}]" if len(bits[int(name.removeprefix(COVER))]) > 1 else name
            yield f"    cover ({bit}); {POINT}{_text(point)}\n"
        yield "  end\n"
