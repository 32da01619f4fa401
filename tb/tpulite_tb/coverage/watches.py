"""A watch in the design for each waived point: a solver looks for a run that sets it."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tpulite_tb.coverage.points import Point
from tpulite_tb.coverage.verilog import POINT
from tpulite_tb.coverage.waivers import Waiver

__all__ = ["with_watches"]

_DECLARED = re.compile(r"^ *(?:input|output|inout|wire|reg) (?:\[(\d+):0\] )?([^ ;]+)")
_COVERED = re.compile(r"cover \((\S+)(\[\d+\])\)")
_TOGGLED = {"0->1": "rise", "1->0": "fall"}
_ACTIVE = "high"

_TOP = "module dut("
_LASTING = """
  reg [2:0] asked_before = 0;
  assign rst = asked | (|asked_before);
  always @(posedge clk) asked_before <= {asked_before[1:0], asked};
"""
"""The chip asks for four cycles of reset."""

_WATCHES = """
module rise(input i);
  (* gclk *) reg gclk;
  reg seen = 0, before = 0;
  always @(posedge gclk) begin seen <= 1; before <= i; end
  (* keep *) wire reached = seen & ~before & i;
endmodule
module fall(input i);
  (* gclk *) reg gclk;
  reg seen = 0, before = 0;
  always @(posedge gclk) begin seen <= 1; before <= i; end
  (* keep *) wire reached = seen & before & ~i;
endmodule
module high(input i);
  (* keep *) wire reached = i;
endmodule
"""


def with_watches(source: str, waivers: Sequence[Waiver]) -> tuple[str, list[Waiver]]:
    """Return Verilog with a watch for each waived point, and whose point each watch is.

    Parameters
    ----------
    source : str
        Verilog of :func:`tpulite_tb.coverage.verilog.with_points`, whose top module is ``dut``.
        Its reset becomes an input ``asked``, and lasts for four cycles each time.
    waivers : sequence of Waiver

    Returns
    -------
    str
        With instances ``watch_0``, ``watch_1``, ... whose wire ``reached`` is high when a point is
        reached; in ``dut`` itself only while there is no reset.
    list of Waiver
        That of each.
    """
    lines: list[str] = []
    owners: list[Waiver] = []
    watches: list[str] = []
    top = False
    for line in _with_lasting_reset(source).splitlines():
        if line.startswith("module "):
            top = line.startswith(_TOP)
        for signal, module, point in _points(line):
            for waiver in waivers:
                if waiver.covers(point):
                    value = f"{signal} & ~rst" if top and module == _ACTIVE else signal
                    watches.append(f"  {module} watch_{len(owners)} (.i({value}));")
                    owners.append(waiver)
        if line.startswith("endmodule"):
            lines += watches
            watches = []
        if "cover (" not in line:
            lines.append(line.replace("dut.clk", "clk").replace("dut.rst", "rst"))
    return "\n".join(lines) + _WATCHES, owners


def _with_lasting_reset(source: str) -> str:
    before, _, rest = source.partition(_TOP)
    ports, _, body = rest.partition(");")
    body, _, after = body.partition("endmodule")
    ports, body = re.sub(r"\brst\b", "asked", ports), body.replace("input rst;", "input asked;")
    return f"{before}{_TOP}{ports});{body}{_LASTING}endmodule{after}"


def _points(line: str) -> Iterator[tuple[str, str, Point]]:
    """Yield what a point of a line is read from, the watch that it takes, and the point."""
    if POINT not in line:
        return
    point = Point(*json.loads(line.partition(POINT)[2]))
    if covered := _COVERED.search(line):
        yield f"{covered[1]} {covered[2]}", _ACTIVE, point
    elif declared := _DECLARED.match(line):
        bits = [""] if declared[1] is None else [f"[{bit}]" for bit in range(int(declared[1]) + 1)]
        for bit in bits:
            for change, module in _TOGGLED.items():
                yield (
                    f"{declared[2]} {bit}",
                    module,
                    replace(point, detail=f"{point.detail}{bit} {change}"),
                )
