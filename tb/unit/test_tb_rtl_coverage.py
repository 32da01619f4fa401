"""Coverage points of the RTL: what a run reaches is told, and what it does not."""

from collections import Counter
from functools import partial

import pytest
from amaranth.back import verilog
from amaranth.hdl import Fragment, Module, Signal
from amaranth.sim import Simulator

from tpulite.arch.isa import Command, Engine, Opcode, VectorOp
from tpulite.arch.memory import WindowBinding
from tpulite.arch.registers import Fault, RunState
from tpulite.golden.machine.dram import Dram
from tpulite.runtime.device import Job
from tpulite_rtl.cp.run_control import RunControl
from tpulite_rtl.lib.pipeline import delay
from tpulite_tb import harness
from tpulite_tb.component_ports import component_ports
from tpulite_tb.coverage.counts import keep, merged, read_counts
from tpulite_tb.coverage.cross import Cross
from tpulite_tb.coverage.functional import Functional
from tpulite_tb.coverage.instrument import COVER, instrument
from tpulite_tb.coverage.page import write_pages
from tpulite_tb.coverage.points import Point
from tpulite_tb.coverage.record import read_record, write_record
from tpulite_tb.coverage.summary import Share, component_shares
from tpulite_tb.coverage.verilog import is_covered, points_of, with_points
from tpulite_tb.coverage.waivers import Waiver, read_waivers, source_line, waive
from tpulite_tb.machines import SMALL

FILE = "cp/run_control.py"
_COPY = {"rows": 1, "columns": 1, "window_rows": 1, "window_columns": 1}


def made() -> RunControl:
    return RunControl(sources=2)


@pytest.fixture(scope="module")
def source() -> str:
    component = made()
    return with_points(verilog.convert, component, name="dut", ports=component_ports(component))


def record(source: str, told: str, number: int, count: int) -> str:
    """Return a record of Verilator's file, of a line of Verilog."""
    fields = {"f": "dut.v", "l": number, "page": "v_user/dut", "o": told}
    return "C '" + "".join(f"\x01{k}\x02{v}" for k, v in fields.items()) + f"' {count}\n"


def test_a_run_reaches_what_it_executes():
    """START, a fault and QUIESCED, in Amaranth's own simulator; nobody says STOP."""
    component = made()
    fragment = Fragment.get(component, None)
    (points,) = instrument(fragment).bits
    (cover,) = (s for s in fragment.statements["comb"]._lhs_signals() if s.name.startswith(COVER))
    counts: Counter[tuple[str, str]] = Counter()

    async def bench(context) -> None:
        script = ({"start": 1}, {}, {"fault": 1}, {}, {"quiet": 1}, {}, {}, {"reset": 1}, {})
        for inputs in script:
            context.set(component.control.start, inputs.get("start", 0))
            context.set(component.control.reset, inputs.get("reset", 0))
            context.set(component.faults[0].valid, inputs.get("fault", 0))
            context.set(component.quiet, "quiet" in inputs)
            active = context.get(cover)
            for bit, point in enumerate(points):
                counts[source_line(point), point.detail] += active >> bit & 1
            await context.tick()
        assert context.get(component.state) == RunState.IDLE

    simulator = Simulator(fragment)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    register = next(line for line, told in counts if told == "state IDLE")
    assert counts[register, "state RUNNING"] == 3
    assert counts[register, "state IDLE to RUNNING"] == 1
    assert counts[register, "state STOPPING to QUIESCED"] == 1
    assert counts[register, "state RUNNING to IDLE"] == counts[register, "state HUNG"] == 0
    # Those of the synchronous and of the combinational statements are two.
    assert counts["with m.If(reported.valid):", "taken"] == 2
    assert counts["with m.Elif(self.done):", "taken"] == 0
    assert counts["with m.Case(RunState.QUIESCED):", "taken"] == 2 * 3
    mux = "host_fault.code.eq(Mux(self.control.stop, Fault.STOPPED, Fault.WATCHDOG)),"
    assert [n for (line, _), n in counts.items() if line == mux] == [9, 0]


def test_counts_come_from_the_lines_of_the_verilog(source):
    numbers = {point: number for number, point in points_of(source).items()}
    done = next(p for p in numbers if source_line(p) == "with m.Elif(self.done):")
    toggle = next(p for p in numbers if p.kind == "toggle" and p.detail == "error.code")
    data = record(source, "cover", numbers[done], 3) + record(source, "cover", 1, 9)
    data += record(source, "error__02ecode[2]:0->1", numbers[toggle], 0)
    counts = read_counts(data, source)
    assert counts[done] == 3
    assert Point("toggle", FILE, toggle.line, "error.code[2] 0->1") in counts
    lines = {point.line: n for point, n in counts.items() if point.kind == "line"}
    assert lines[done.line + 1] == lines[done.line + 2] == 3
    reset = next(line for line in lines if "stop_next.eq(0)" in _text(line))
    always = next(line for line in lines if "stop_next.eq(self.stop)" in _text(line))
    assert (lines[reset], lines[always]) == (0, 1)


def test_benches_simulate_the_points(monkeypatch):
    monkeypatch.setattr(verilog, "convert", partial(with_points, verilog.convert))
    monkeypatch.setattr(harness, "simulate_verilog", lambda source, *_, **__: source)
    assert is_covered(harness.simulate(made(), __file__, name="points"))


def test_bits_that_never_change_have_no_points(source):
    """The host's faults are WATCHDOG and STOPPED, 8 and 11: bit 2 of the code is constant."""
    (number,) = (n for n, p in points_of(source).items() if p.detail == "host_fault.code")
    name = "host_fault__02ecode"
    begins = record(source, f"{name}[2]:0->1", number, 1) + record(
        source, f"{name}[0]:0->1", number, 0
    )
    (point,) = (p for p in read_counts(begins, source) if p.kind == "toggle")
    assert point.detail == "host_fault.code[0] 0->1"
    with pytest.raises(ValueError, match=r"a constant that changes.*code\[2\] 1->0"):
        read_counts(begins + record(source, f"{name}[2]:1->0", number, 1), source)


def test_what_no_source_names_is_no_point(source):
    names = {point.detail for point in points_of(source).values() if point.kind == "toggle"}
    assert {"interrupt.done", "patience", "watchdog"} <= names
    assert not names & {"clk", "rst", "error", "interrupt"}
    assert not [name for name in names if "$" in name or "cover" in name]


def test_a_condition_that_is_constant_is_none():
    """Yosys' Verilog is wrong if it is not left out: half of an ``if`` is missing."""
    m = Module()
    delay(m, Signal(), 2, "copy")
    found = instrument(Fragment.get(m, None))
    assert not found.bits
    assert [(line.file, ways) for line, ways in found.lines.items()] == [("lib/pipeline.py", set())]


def test_shares_are_kept_and_drawn(tmp_path):
    counts = Counter({Point("line", FILE, n, ""): n - 120 for n in (120, 121, 123)})
    counts[Point("toggle", FILE, 118, "patience[3] 0->1")] = 0
    keep(counts, tmp_path / "one.json")
    keep(counts, tmp_path / "two.json")
    both = merged([tmp_path / "one.json", tmp_path / "two.json"])
    assert both[Point("line", FILE, 123, "")] == 6
    waived = {Point("toggle", FILE, 118, "patience[3] 0->1"): "takes too long"}
    shares = component_shares(both, waived)
    assert shares["cp.run_control"]["line"] == Share(2, 0, 3)
    assert str(shares["cp.run_control"]["line"]) == "66.6"
    assert str(shares["cp.run_control"]["toggle"]) == "—"
    write_record(shares, tmp_path / "record.csv")
    assert read_record(tmp_path / "record.csv")["cp.run_control"]["toggle"] == Share(0, 1, 1)
    crosses = {"pairs": Cross(first=["LOAD"], second=["LOAD", "STORE"])}
    crosses["pairs"].hit(first="LOAD", second="LOAD")
    page = write_pages(both, waived, crosses, tmp_path / "html").read_text()
    assert 'href="cp.run_control.html"' in page
    assert "1 of 2 combinations" in page and "LOAD · STORE" in page
    text = (tmp_path / "html/cp.run_control.html").read_text()
    assert text.count("never executed") == 2 and "waived: takes too long" in text


def test_a_waiver_is_wrong_if_it_is_reached_or_about_nothing(tmp_path):
    point = Point("toggle", FILE, 118, "patience[3] 0->1")
    waiver = Waiver("toggle", FILE, source_line(point), "patience[[]*", "", "takes too long")
    assert waive(Counter({point: 0}), [waiver]) == ({point: "takes too long"}, [])
    _, (reached,) = waive(Counter({point: 1}), [waiver])
    assert reached.endswith("reached, 1 of 1 points")
    other = Point("toggle", FILE, 107, "reported.valid 0->1")
    _, (nothing,) = waive(Counter({other: 0}), [waiver])
    assert nothing.endswith("there is no such point")
    assert waive(Counter({other: 0}), [waiver], complete=False) == ({}, [])
    table = tmp_path / "waivers.csv"
    table.write_text("kind,file,source,detail,proof,reason\nline,a.py,x,,,\n")
    with pytest.raises(ValueError, match=r"no reason for line of a\.py"):
        read_waivers(table)
    table.write_text("kind,file,source,detail,proof,reason\nline,a.py,x,,sure,rare\n")
    with pytest.raises(ValueError, match="proof 'sure'"):
        read_waivers(table)
    table.write_text("kind,file,source,detail,proof,reason\nline,a.py,x,,lib.fifo: order,rare\n")
    (follows,) = read_waivers(table)
    assert follows.property == ("lib.fifo", "order")


def test_what_a_program_executes_is_sampled(tmp_path, monkeypatch):
    """Three commands, a fault at the last one: nothing behind it counts."""
    monkeypatch.setenv("TPULITE_FUNCTIONAL", str(tmp_path))
    commands = [
        Command.make(Opcode.LOAD, signal=1 << Engine.VPU, lines=1, rows=5, row=0),
        Command.make(Opcode.VECTOR, wait=1 << Engine.LOAD, operation=VectorOp.COPY, **_COPY),
        Command.make(Opcode.STORE, window=2, lines=1, rows=4, row=SMALL.ub_rows - 2),
        Command.make(Opcode.END),
    ]
    window = WindowBinding(base=0, size=4096, read=True, write=True)
    job = Job(0, len(commands), (window,) * 4)
    sampler = Functional()
    done = sampler.program(commands, SMALL, job, Dram(8192))
    assert done.fault is not None and done.fault.code == Fault.BUFFER
    sampler.waits({("r", 0): 7, ("r", 3): 2})
    crosses = Functional.merged(tmp_path).crosses
    pairs = crosses["commands back to back"]
    assert pairs.hits(first="LOAD", second="VECTOR", token="yes") == 1
    assert pairs.hits(first="VECTOR", second="STORE", token="no") == 1
    assert pairs.hits() == 2
    assert crosses["transfers"].hits(opcode="LOAD", tail="partial beat", page="within") == 1
    assert crosses["transfers"].hits() == 1
    assert crosses["VECTOR"].hits(operation="COPY", outputs="1", rounding="-") == 1
    assert crosses["faults"].hits(code="BUFFER", opcode="STORE") == 1
    assert crosses["cycles that a transfer waits on AXI"].hits(channel="r", edges="2-7") == 2


def _text(line: int) -> str:
    return source_line(Point("line", FILE, line, ""))
