"""The AXI monitor: each of its rules can fail, and legal traffic breaks none."""

import cocotb
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import ClockCycles, RisingEdge

from tpulite_rtl.bus.axi import axi4_members
from tpulite_tb.axi_monitor import AxiMonitor, AxiRules
from tpulite_tb.harness import reset, simulate


def request(address: int = 0x1000, beats: int = 2, **changes: int) -> dict[str, int]:
    return {"id": 0, "addr": address, "len": beats - 1, "size": 4, "burst": 1} | changes


def read_beat(last: bool, identifier: int = 0) -> dict[str, int]:
    return {"id": identifier, "data": 5, "resp": 0, "last": last}


def write_beat(last: bool, data: int = 7) -> dict[str, int]:
    return {"data": data, "strb": 0xFFFF, "last": last}


RESPONSE = {"id": 0, "resp": 0}


def play(steps: list[dict[str, dict[str, int]]], **options: int) -> AxiRules:
    """Play edges at which every offer is accepted at once, unless its channel ends in a minus."""
    rules = AxiRules(**options)
    for step in steps:
        rules.step({c.rstrip("-"): (not c.endswith("-"), payload) for c, payload in step.items()})
    return rules


WRITE = [{"aw": request()}, {"w": write_beat(False)}, {"w": write_beat(True)}, {"b": RESPONSE}]
READ = [{"ar": request()}, {"r": read_beat(False)}, {"r": read_beat(True)}]
LEGAL = {
    "write": WRITE,
    "read": READ,
    "stalled offer": [{"ar-": request()}, {"ar-": request()}, *READ],
    "request and data at one edge": [{"aw": request(beats=1), "w": write_beat(True)}, WRITE[-1]],
    "data before the request": [*WRITE[1:3], WRITE[0], WRITE[3]],
    "data around the request": [WRITE[1], WRITE[0], *WRITE[2:]],
    "ids out of order": [
        {"ar": request()},
        {"ar": request(beats=1, id=1)},
        {"r": read_beat(True, 1)},
        *READ[1:],
    ],
    "whole page": [{"ar": request(0x2000, 256)}, *[READ[1]] * 255, READ[2]],
}


@pytest.mark.parametrize("steps", LEGAL.values(), ids=LEGAL.keys())
def test_legal_traffic_passes(steps):
    play(steps).finish()


BROKEN = {
    "AR .* withdrawn": [{"ar-": request()}, {}],
    "AW .* withdrawn": [{"aw-": request()}, {}],
    "W .* withdrawn": [WRITE[0], {"w-": write_beat(False)}, {}],
    "R .* withdrawn": [READ[0], {"r-": read_beat(False)}, {}],
    "B .* withdrawn": [*WRITE[:3], {"b-": RESPONSE}, {}],
    "AR .* changed": [{"ar-": request()}, {"ar": request(0x2000)}],
    "AW .* changed": [{"aw-": request()}, {"aw": request(beats=3)}],
    "W .* changed": [WRITE[0], {"w-": write_beat(False)}, {"w": write_beat(False, data=8)}],
    "R .* changed": [READ[0], {"r-": read_beat(False)}, {"r": read_beat(True)}],
    "B .* changed": [*WRITE[:3], {"b-": RESPONSE}, {"b": RESPONSE | {"resp": 2}}],
    "AR .* size must be 4": [{"ar": request(size=3)}],
    "AW .* size must be 4": [{"aw": request(size=3)}],
    "AR .* burst must be 1": [{"ar": request(burst=2)}],
    "AW .* burst must be 1": [{"aw": request(burst=0)}],
    "AR .* multiple of 16": [{"ar": request(0x1008)}],
    "AW .* multiple of 16": [{"aw": request(0x1001)}],
    "AR .* crosses 4096": [{"ar": request(0x1FF0)}],
    "AW .* crosses 4096": [{"aw": request(0x1FE0, 3)}],
    "AR .* at most 16 beats": [{"ar": request(beats=17)}],
    "W .* LAST is True": [WRITE[0], {"w": write_beat(True)}],
    "W .* LAST is False": [*WRITE[:2], {"w": write_beat(False)}],
    "W .* 1 beats came": [{"w": write_beat(True)}, WRITE[0]],
    "W .* no LAST": [WRITE[1], WRITE[1], WRITE[0]],
    "R .* LAST is True": [READ[0], READ[2]],
    "R .* LAST is False": [*READ[:2], READ[1]],
    "R .* no read of id 1": [READ[0], {"r": read_beat(False, 1)}],
    "R .* no read of id 0": [READ[1]],
    "B .* no complete write of id 0": [*WRITE[:2], WRITE[3]],
    "B .* no complete write of id 1": [*WRITE[:3], {"b": RESPONSE | {"id": 1}}],
    "offers never accepted": [{"ar-": request()}],
    "reads without their data": READ[:2],
    "writes without their data": WRITE[:2],
    "write data without a request": WRITE[1:3],
    "writes without a response": WRITE[:3],
}


@pytest.mark.parametrize(("message", "steps"), BROKEN.items(), ids=BROKEN.keys())
def test_broken_rule_fails(message, steps):
    with pytest.raises(AssertionError, match=message):
        play(steps, max_beats=16).finish()


def test_bursts_are_collected():
    rules = play([*WRITE, *READ])
    (write,), (read,) = rules.writes, rules.reads
    assert (write.address, write.beats, write.edge, write.answered) == (0x1000, 2, 1, 4)
    assert (read.address, read.beats, read.edge, read.answered) == (0x1000, 2, 5, 7)
    assert [channel for channel, _ in rules.events] == ["aw", "w", "w", "b", "ar", "r", "r"]


class Wires(wiring.Component):
    """Nothing but AXI ports, both sides driven by the bench."""

    def __init__(self) -> None:
        ports = {name: In(member.shape) for name, member in axi4_members("m_axi").items()}
        super().__init__(ports | {"tick": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.sync += self.tick.eq(~self.tick)  # a design without registers would have no clock
        return m


async def _edge(dut, **offers: dict[str, int] | None) -> None:
    """Offer payloads for an edge; None withdraws."""
    for channel, payload in offers.items():
        getattr(dut, f"m_axi_{channel}valid").value = payload is not None
        for name, value in (payload or {}).items():
            getattr(dut, f"m_axi_{channel}{name}").value = int(value)
    await RisingEdge(dut.clk)


async def _start(dut) -> AxiMonitor:
    for channel in ("ar", "r", "aw", "w", "b"):
        getattr(dut, f"m_axi_{channel}valid").value = 0
        getattr(dut, f"m_axi_{channel}ready").value = 1
    await reset(dut)
    return AxiMonitor(dut)


@cocotb.test(timeout_time=1, timeout_unit="us")
async def samples_every_channel(dut) -> None:
    """See one write and one read through the ports."""
    monitor = await _start(dut)
    await _edge(dut, aw=request(), ar=request(0x2000))
    await _edge(dut, aw=None, ar=None, w=write_beat(False), r=read_beat(False))
    await _edge(dut, w=write_beat(True), r=read_beat(True))
    await _edge(dut, w=None, r=None, b=RESPONSE | {"resp": 2})
    await _edge(dut, b=None)
    await ClockCycles(dut.clk, 2)
    monitor.finish()
    (write,), (read,) = monitor.writes, monitor.reads
    assert (write.address, write.beats, write.error) == (0x1000, 2, True)
    assert (read.address, read.beats, read.error) == (0x2000, 2, False)


@cocotb.test(timeout_time=1, timeout_unit="us", expect_error=AssertionError)
async def fails_the_test_by_itself(dut) -> None:
    """Withdraw an offer."""
    await _start(dut)
    dut.m_axi_arready.value = 0
    await _edge(dut, ar=request())
    await _edge(dut, ar=None)
    await ClockCycles(dut.clk, 4)


@cocotb.test(timeout_time=1, timeout_unit="us")
async def reset_closes_everything(dut) -> None:
    """Reset with a burst open."""
    monitor = await _start(dut)
    await _edge(dut, ar=request())
    await _edge(dut, ar=None)
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    monitor.finish()
    assert len(monitor.reads) == 1


def test_axi_monitor():
    simulate(Wires(), __file__, name="tb_axi_monitor")
