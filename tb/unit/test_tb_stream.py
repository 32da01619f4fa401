# amaranth: UnusedElaboratable=no
"""The testbench library itself: streams, scoreboard and harness find what they must find."""

import os
import random

import cocotb
import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import ClockCycles

from tpulite_tb.harness import reset, simulate
from tpulite_tb.scoreboard import Scoreboard
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink, runs, width_of
from tpulite_testing.regress import breadth

BUGS = ("none", "withdraw", "change", "lose", "double", "wrong")


class Slice(wiring.Component):
    """A register between streams that can break each rule, with a pulse on the side."""

    def __init__(self, width: int) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(signed(width))),
                "o": Out(stream.Signature(signed(width))),
                "nested": Out(
                    wiring.Signature(
                        {"pulse": Out(stream.Signature(signed(width), always_ready=True))}
                    )
                ),
                "bug": In(range(len(BUGS))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        bug = {name: self.bug == code for code, name in enumerate(BUGS)}
        stalled = Signal()
        advance = Signal()
        m.d.comb += [
            stalled.eq(self.o.valid & ~self.o.ready),
            advance.eq(~stalled),
            self.i.ready.eq(advance),
            self.nested.pulse.payload.eq(self.i.payload),
            self.nested.pulse.valid.eq(self.i.valid & self.i.ready),
        ]
        with m.If(advance):
            m.d.sync += [
                self.o.valid.eq(self.i.valid & ~(bug["lose"] & self.i.payload[0])),
                self.o.payload.eq(self.i.payload ^ bug["wrong"]),
            ]
            with m.If(bug["double"] & self.o.valid & ~self.i.valid):
                m.d.sync += self.o.valid.eq(1)
        with m.Else():
            with m.If(bug["withdraw"]):
                m.d.sync += self.o.valid.eq(0)
            with m.If(bug["change"]):
                m.d.sync += self.o.payload.eq(~self.o.payload)
        return m


async def _traffic(dut, bug: str, *, idle: float, stall: float) -> None:
    width = width_of(dut.i__payload)
    payloads = [random.getrandbits(width) - (1 << width - 1) for _ in range(200)]
    dut.bug.value = BUGS.index(bug)
    driver = StreamDriver(dut, "i", idle=idle)
    StreamSink(dut, "o", stall=stall)
    out = Scoreboard(dut, StreamMonitor(dut, "o", signed=True))
    pulse = Scoreboard(dut, StreamMonitor(dut, "nested__pulse", signed=True))
    await reset(dut)

    driver.extend(payloads)
    out.expect(*payloads)
    pulse.expect(*payloads)
    await driver.drained()
    await out.drained()
    await pulse.drained()
    assert out.matched == pulse.matched == len(payloads)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def carries_every_payload(dut, idle: float, stall: float) -> None:
    """Check that the models agree with a correct design."""
    await _traffic(dut, "none", idle=idle, stall=stall)


@cocotb.test(timeout_time=20, timeout_unit="us", expect_error=(AssertionError, TimeoutError))
@cocotb.parametrize(bug=BUGS[1:])
async def notices_every_bug(dut, bug: str) -> None:
    """Check that a design that breaks a rule fails."""
    await _traffic(dut, bug, idle=0.5, stall=0.5)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def full_speed_is_one_transfer_a_cycle(dut) -> None:
    """Neither driver nor sink adds bubbles."""
    dut.bug.value = 0
    driver = StreamDriver(dut, "i")
    StreamSink(dut, "o")
    monitor = StreamMonitor(dut, "o")
    await reset(dut)
    driver.extend(random.getrandbits(width_of(dut.i__payload)) for _ in range(100))
    await ClockCycles(dut.clk, 100 + 4)
    assert monitor.transfers == 100


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def sink_can_stall_for_good(dut) -> None:
    """After stall(1) nothing is accepted; with stall(0) everything goes on."""
    dut.bug.value = 0
    driver = StreamDriver(dut, "i")
    sink = StreamSink(dut, "o", stall=0.5)
    monitor = StreamMonitor(dut, "o")
    await reset(dut)
    sink.stall(1)
    await ClockCycles(dut.clk, 2)
    driver.extend([0] * 8)
    await ClockCycles(dut.clk, 20)
    assert monitor.transfers == 0
    sink.stall(0)
    await driver.drained()
    await ClockCycles(dut.clk, 2)
    assert monitor.transfers == 8


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fails_if_told(dut) -> None:
    """Fails if the environment says so, when all results have come."""
    await _traffic(dut, "none", idle=0.0, stall=0.0)
    assert "TPULITE_TEST_FAIL" not in os.environ, "told to fail"


@pytest.mark.parametrize("width", [16, 200, *breadth("narrow, as 16 is", 1)])
def test_stream_models(width):
    simulate(Slice(width), __file__, name=f"tb_stream_{width}")


def test_failing_cocotb_test_fails_pytest():
    repeat = r"SIM=\w+ COCOTB_RANDOM_SEED=\d+ .*make test-unit T=tb/unit/test_tb_stream.py$"
    with pytest.raises(AssertionError, match=rf"(?s)1 of 1 cocotb tests failed.*{repeat}"):
        simulate(
            Slice(16),
            __file__,
            name="tb_stream_fail",
            testcase="fails_if_told",
            extra_env={"TPULITE_TEST_FAIL": "1"},
        )


def test_seed_is_repeated(monkeypatch):
    monkeypatch.setenv("COCOTB_RANDOM_SEED", "12345")
    run_dir = simulate(Slice(16), __file__, name="tb_stream_seed", testcase="fails_if_told")
    assert "Seeding Python random module with 12345" in (run_dir / "test.log").read_text()


def test_unknown_test_is_an_error():
    with pytest.raises(AssertionError, match=r"No cocotb test ran|broke off|0 of 0"):
        simulate(Slice(16), __file__, name="tb_stream_none", testcase="no_such_test")


def test_missing_icarus_skips_with_reason(monkeypatch):
    monkeypatch.setenv("SIM", "icarus")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.skip.Exception, match="apt install iverilog"):
        simulate(Slice(16), __file__, name="tb_stream_skip")


def test_unknown_simulator_is_refused(monkeypatch):
    monkeypatch.setenv("SIM", "modelsim")
    with pytest.raises(ValueError, match=r"^SIM must be one of .*, not 'modelsim'$"):
        simulate(Slice(16), __file__, name="tb_stream_sim")


@pytest.mark.parametrize("off", [-0.1, 1.0])
def test_runs_rejects_fractions(off):
    with pytest.raises(ValueError, match=rf"\[0, 1\), not {off}"):
        next(runs(off))


def test_sink_rejects_fractions():
    with pytest.raises(ValueError, match=r"^Fraction of stalled cycles .* \[0, 1\], not 2$"):
        StreamSink(None, "o", stall=2)
