# amaranth: UnusedElaboratable=no
"""The AXI port: arbitration of the two readers, and beats that find their reader; slices."""

import random
from collections.abc import Callable

import cocotb
import pytest
from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal
from amaranth.lib import wiring
from cocotb.triggers import RisingEdge

from tpulite.arch.memory import ADDRESS_BITS, MemoryTiming
from tpulite_rtl.bus.axi import READ_BEAT, WRITE_BEAT
from tpulite_rtl.bus.axi_master import AxiMaster
from tpulite_rtl.bus.axi_ports import connect_channels
from tpulite_tb.axi_memory import ReferenceMemory
from tpulite_tb.axi_monitor import AxiMonitor
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

SIZE = 1 << 16


def _bursts(count: int) -> list[tuple[int, int]]:
    """Draw bursts that stay within 4 KiB: address and beats."""
    bursts = []
    for _ in range(count):
        beats = random.randint(1, 16)
        page = random.randrange(SIZE // 4096) * 4096
        bursts.append((page + 16 * random.randrange(256 - beats + 1), beats))
    return bursts


def _errors() -> list[range]:
    """Draw beats that are answered with an error, in both halves of the memory."""
    beats = range(0, SIZE, 16)
    return [range(beat, beat + 16) for beat in random.sample(beats, len(beats) // 30)]


def _beat(data: int, last: bool, error: bool) -> int:
    """Return a beat; the data of one that failed are nobody's."""
    values = {"data": 0 if error else data, "last": last, "error": error}
    return READ_BEAT.const(values).as_bits()


def _seen(payload: int) -> int:
    beat = READ_BEAT.from_bits(payload)
    return _beat(beat.data, beat.last, beat.error)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.4])
async def every_beat_finds_its_reader(dut, stall: float) -> None:
    """Both readers and the writer at once, errors among them; offers are stable, data are right."""
    timing = MemoryTiming(read_latency=5, write_response=4)
    memory = ReferenceMemory(dut, size=SIZE, timing=timing, stall=stall, jitter=3 if stall else 0)
    memory.mem[:] = random.randbytes(SIZE)
    image = bytes(memory.mem)
    memory.read_errors, memory.write_errors = _errors(), _errors()
    monitor = AxiMonitor(dut)
    drivers, sinks, received = {}, [], {}
    for name in ("fetch", "load"):
        drivers[name] = StreamDriver(dut, f"{name}__ar", idle=0.3)
        sinks.append(StreamSink(dut, f"{name}__r", stall=stall if name == "load" else 0.0))
        received[name] = []
        StreamMonitor(dut, f"{name}__r", callback=lambda x, to=received[name]: to.append(_seen(x)))
    address, beats = StreamDriver(dut, "store__aw"), StreamDriver(dut, "store__w", idle=0.2)
    sinks.append(StreamSink(dut, "store__b", stall=stall))
    responses: list[int] = []
    StreamMonitor(dut, "store__b", callback=responses.append)
    await reset(dut)

    expected = {}
    for name in ("fetch", "load"):
        bursts = [(a, n) for a, n in _bursts(60) if a < SIZE // 2]
        drivers[name].extend(a | (n - 1) << ADDRESS_BITS for a, n in bursts)
        expected[name] = [
            _beat(
                int.from_bytes(image[at : at + 16], "little"),
                at == a + 16 * (n - 1),
                memory.fails(at, 1, memory.read_errors),
            )
            for a, n in bursts
            for at in range(a, a + 16 * n, 16)
        ]
    written = bytearray(image)
    writes = [(a, n) for a, n in _bursts(40) if a >= SIZE // 2]
    failed: list[bool] = []
    for a, n in writes:
        failed.append(memory.fails(a, n, memory.write_errors))
        address.append(a | (n - 1) << ADDRESS_BITS)
        for i in range(n):
            data, strobe = random.getrandbits(128), random.getrandbits(16)
            beats.append(
                data
                | strobe << WRITE_BEAT["strobe"].offset
                | (i == n - 1) << WRITE_BEAT["last"].offset
            )
            for byte in range(16 if not failed[-1] else 0):
                if strobe >> byte & 1:
                    written[a + 16 * i + byte] = data >> 8 * byte & 0xFF

    edge = RisingEdge(dut.clk)
    while any(len(received[n]) < len(expected[n]) for n in expected) or len(responses) < len(
        writes
    ):
        await edge
    assert received == expected
    assert responses == failed and set(failed) == {False, True}
    assert memory.mem == written
    monitor.finish()


class _Sliced(wiring.Component):
    """The master behind register slices."""

    def __init__(self) -> None:
        super().__init__(AxiMaster().signature)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.master = master = AxiMaster()
        m.domains += ClockDomain("core")
        m.d.comb += [ClockSignal("core").eq(ClockSignal()), ResetSignal("core").eq(ResetSignal())]
        for name in ("fetch", "load", "store"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(master, name))
        for name in ("read_beat", "write_beat", "response"):
            m.d.comb += getattr(self, name).eq(getattr(master, name))
        connect_channels(m, master, self, slices=True)
        return m


@pytest.mark.parametrize("component", [AxiMaster, _Sliced], ids=["alone", "sliced"])
def test_axi_master(component: Callable[[], wiring.Component]) -> None:
    simulate(component(), __file__, name=f"axi_master_{component.__name__.strip('_').lower()}")
