"""Waveforms: what is kept of a simulation, read again by the library of a viewer."""

import io
import re
from pathlib import Path

import pytest
import pywellen
from amaranth.hdl import unsigned

from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_tb.fst import Keep, write_fst
from tpulite_tb.harness import simulate
from tpulite_tb.wave_layouts import write_layouts
from tpulite_tb.waves import Waves

VCD = b"""$timescale 1ps $end
$scope module $rootio $end
$var wire 1 # clk $end
$var wire 3 % trace_mxu_state [2:0] $end
$upscope $end
$scope module dut $end
$var wire 1 # clk $end
$var wire 3 % trace_mxu_state [2:0] $end
$var wire 9 & count [8:0] $end
$scope module inner $end
$var wire 9 & copy [8:0] $end
$upscope $end
$upscope $end
$enddefinitions $end
"""
"""A clock of 10 ns that rises at 5, 15, ...; in each cycle the next state, and a count."""

NAMES = ("IDLE", "BUSY", "TOKEN")


def vcd(cycles: int) -> io.BytesIO:
    lines = [f"#0\n0#\nb000 %\nb{0:09b} &"]
    for cycle in range(cycles):
        lines.append(f"#{10000 * cycle + 5000}\n1#\nb{cycle % 3:03b} %\nb{7 * cycle:b} &")
        lines.append(f"#{10000 * cycle + 10000}\n0#")
    return io.BytesIO(VCD + "\n".join(lines).encode() + b"\n")


def value(path: Path, name: str, cycle: int) -> int | None:
    """Return what a signal is in the cycle that begins with a rising edge."""
    (variable,) = [x for x in pywellen.Waveform(str(path)).all_vars() if x.full_name == name]
    return variable.signal.value_at(10000 * cycle + 5000)


@pytest.mark.parametrize("window", [range(1 << 62), range(2, 5), range(7, 8)])
@pytest.mark.parametrize("ports", [True, False])
def test_a_window_holds_its_cycles_and_names_states(
    tmp_path: Path, window: range, ports: bool
) -> None:
    file, cycles = tmp_path / "waves.fst", 9
    keep = Keep(window, ports, {re.compile("trace_.*_state"): NAMES})
    found = {".".join(x.path): x for x in write_fst(vcd(cycles), file, keep)}
    more = set() if ports else {"dut.count", "dut.inner.copy"}
    assert found.keys() == {"dut.clk", "dut.trace_mxu_state"} | more
    state = pywellen.Waveform(str(file)).all_vars()
    (names,) = [x.enum_type for x in state if x.full_name == "dut.trace_mxu_state"]
    assert [name for _, name in names[1]] == list(NAMES)
    for cycle in range(cycles):
        last = min(cycle, window.stop - 1)
        before = cycle < window.start
        assert value(file, "dut.trace_mxu_state", cycle) == (None if before else last % 3)
        for name in more:
            assert value(file, name, cycle) == (None if before else 7 * last)


def test_layouts_show_ports_in_groups(tmp_path: Path) -> None:
    file = tmp_path / "waves.fst"
    keep = Keep(range(9), False, {re.compile("trace_.*_state"): NAMES})
    write_layouts(file, write_fst(vcd(3), file, keep))
    lines = (tmp_path / "waves.gtkw").read_text().splitlines()
    assert lines[2:] == [
        *("@200", "-clock", "@28", "dut.clk"),
        *("@200", "-engines", "@100000022", "dut.trace_mxu_state[2:0]"),
    ]
    assert (tmp_path / "waves.sucl").read_text().splitlines() == [
        *("divider_add clock", "variable_add dut.clk"),
        *("divider_add engines", "variable_add dut.trace_mxu_state", "zoom_fit"),
    ]


def test_words_of_the_environment_are_understood_or_refused() -> None:
    assert not Waves.of({}).on and not Waves.of({"WAVES": "no"}).on
    assert Waves.of({"WAVES": "YES"}) == Waves.of({"WAVES": "1"}) == Waves(on=True)
    assert Waves.of({"WAVES": "all"}).everything
    assert Waves.of({"WAVES": "1", "WAVES_FROM": "3", "WAVES_TO": "9"}).cycles == range(3, 9)
    for words, message in (
        ({"WAVES": "maybe"}, "WAVES must be 1"),
        ({"WAVES": "1", "WAVES_FROM": "-1"}, "WAVES_FROM must be the number of a cycle"),
        ({"WAVES": "1", "WAVES_FROM": "5", "WAVES_TO": "5"}, "WAVES_TO must be after"),
        ({"WAVES_TO": "5"}, "need WAVES=1"),
    ):
        with pytest.raises(ValueError, match=message):
            Waves.of(words)


def test_a_bench_leaves_a_waveform_of_its_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVES", "1")
    monkeypatch.setenv("DEPTH", "3")
    bench = Path(__file__).with_name("test_fifo.py")
    folder = simulate(StreamFifo(unsigned(8), 3), str(bench), name="fifo_waves")
    names = {x.full_name for x in pywellen.Waveform(str(folder / "waves.fst")).all_vars()}
    assert {"dut.clk", "dut.i__payload"} <= names and "$rootio.clk" not in names
