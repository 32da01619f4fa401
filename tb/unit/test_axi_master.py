# amaranth: UnusedElaboratable=no
"""The AXI port: arbitration of the two readers, and beats that find their reader; slices."""

import random
from collections import Counter
from collections.abc import Callable

import cocotb
import pytest
from amaranth.hdl import Cat, ClockDomain, ClockSignal, Module, Mux, ResetSignal
from amaranth.lib import wiring
from cocotb.triggers import ReadOnly, RisingEdge

from tpulite.arch.memory import ADDRESS_BITS, MemoryTiming
from tpulite_rtl.bus.axi import READ_BEAT, WRITE_BEAT
from tpulite_rtl.bus.axi_master import AxiMaster
from tpulite_rtl.bus.axi_ports import connect_channels
from tpulite_tb.axi_memory import ReferenceMemory
from tpulite_tb.axi_monitor import CHANNELS, AxiMonitor
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

SIZE = 1 << 16
CACHE = 0b0011
"""Normal, non-cacheable, bufferable."""
SLOW, SLOWER = 0.9, 0.98
"""Stalls of the memory and, with it, of sinks, for every channel to wait for many edges."""
MANY = 8


def _bursts(count: int, usual: int = 16) -> list[tuple[int, int]]:
    """Draw bursts that stay within 4 KiB: address and beats; some of them beyond the memory."""
    bursts = []
    for _ in range(count):
        beats = random.randint(1, random.choice([usual] * 15 + [16 * usual]))
        pages = random.choice([SIZE, SIZE, SIZE, 1 << ADDRESS_BITS]) // 4096
        page = random.randrange(pages) * 4096
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


async def _count(dut, counts: Counter[str]) -> None:
    """Count the cycles of the pulses that say what AXI has transferred."""
    while True:
        await RisingEdge(dut.clk)
        if not dut.rst.value:
            for name in ("read_beat", "write_beat", "response"):
                counts[name] += int(getattr(dut, name).value)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.4, SLOW])
async def every_beat_finds_its_reader(dut, stall: float) -> None:
    """Both readers and the writer at once, errors among them; offers are stable, data are right."""
    timing = MemoryTiming(read_latency=5, write_response=4)
    memory = ReferenceMemory(dut, size=SIZE, timing=timing, stall=stall, jitter=3 if stall else 0)
    memory.mem[:] = random.randbytes(SIZE)
    image = bytes(memory.mem)
    memory.read_errors, memory.write_errors = _errors(), _errors()
    monitor = AxiMonitor(dut)
    patience, usual = (SLOWER, 2) if stall == SLOW else (stall, 16)
    drivers, sinks, received = {}, [], {}
    for name in ("fetch", "load"):
        drivers[name] = StreamDriver(dut, f"{name}__ar", idle=0.3)
        sinks.append(StreamSink(dut, f"{name}__r", stall=patience if name == "load" else 0.0))
        received[name] = []
        StreamMonitor(dut, f"{name}__r", callback=lambda x, to=received[name]: to.append(_seen(x)))
    address, beats = StreamDriver(dut, "store__aw"), StreamDriver(dut, "store__w", idle=0.2)
    sinks.append(StreamSink(dut, "store__b", stall=patience))
    responses: list[int] = []
    StreamMonitor(dut, "store__b", callback=responses.append)
    await reset(dut)
    counts: Counter[str] = Counter()
    cocotb.start_soon(_count(dut, counts))

    expected, requested = {}, {}
    for name in ("fetch", "load"):
        bursts = [(a, n) for a, n in _bursts(60, usual) if not SIZE // 2 <= a < SIZE]
        requested[name] = bursts
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
    writes = [(a, n) for a, n in _bursts(40, usual) if a >= SIZE // 2]
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
    for number, name in enumerate(("fetch", "load")):
        assert [(x.address, x.beats) for x in monitor.reads if x.id == number] == requested[name]
    assert [(x.id, x.address, x.beats) for x in monitor.writes] == [(0, a, n) for a, n in writes]
    assert counts == {
        "read_beat": sum(map(len, expected.values())),
        "write_beat": sum(n for _, n in writes),
        "response": len(writes),
    }
    for channel in ("ar", "aw"):
        assert getattr(dut, f"m_axi_{channel}cache").value == CACHE
        assert getattr(dut, f"m_axi_{channel}prot").value == 0
    if stall == SLOW:
        assert {channel for channel, edges in monitor.waits if edges >= MANY} == {*CHANNELS}
    monitor.finish()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fetch_goes_before_load(dut) -> None:
    """Unless LOAD has offered an address before that was refused."""
    await reset(dut)
    fetch = load = kept = False
    for _cycle in range(300):
        fetch |= random.random() < 0.4
        load |= random.random() < 0.4
        ready = random.random() < 0.5
        dut.fetch__ar__valid.value = fetch
        dut.load__ar__valid.value = load
        dut.m_axi_arready.value = ready
        await ReadOnly()
        for_load = load and (kept or not fetch)
        assert dut.m_axi_arvalid.value == (fetch or load)
        if fetch or load:
            assert dut.m_axi_arid.value == for_load
        kept = for_load and not ready
        fetch, load = fetch and not (ready and not for_load), load and not (ready and for_load)
        await RisingEdge(dut.clk)


@cocotb.test(timeout_time=1, timeout_unit="us")
async def reset_forgets_what_was_refused(dut) -> None:
    """Neither the address of LOAD that the memory refused, nor the beat that LOAD refused."""
    dut.m_axi_arready.value = 0
    dut.load__ar__valid.value = 1
    dut.fetch__ar__valid.value = 0
    dut.m_axi_rvalid.value = 1
    dut.m_axi_rid.value = 1
    dut.load__r__ready.value = 0
    await reset(dut)
    dut.fetch__ar__valid.value = 1
    dut.m_axi_rvalid.value = 0
    await ReadOnly()
    assert dut.load__r__valid.value == 0
    await RisingEdge(dut.clk)
    await ReadOnly()
    assert dut.m_axi_arid.value == 0


@cocotb.test(timeout_time=1, timeout_unit="us")
async def ids_of_responses_do_not_count(dut) -> None:
    """There is one writer, and it gets each response."""
    for name in ("fetch__ar", "load__ar", "store__aw", "store__w"):
        getattr(dut, f"{name}__valid").value = 0
    dut.m_axi_rvalid.value = dut.m_axi_bvalid.value = 0
    dut.store__b__ready.value = 1
    await reset(dut)
    for identity in (0, 1, 0):
        dut.m_axi_bid.value = identity
        dut.m_axi_bvalid.value = 1
        await ReadOnly()
        assert dut.store__b__valid.value and dut.response.value
        await RisingEdge(dut.clk)


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
    # Slices come between an offer and the address that is seen.
    testcase = None if component is AxiMaster else "every_beat_finds_its_reader"
    name = f"axi_master_{component.__name__.strip('_').lower()}"
    simulate(component(), __file__, name=name, testcase=testcase)


class _Confused(_Sliced):
    """A master that takes other responses on a channel for errors."""

    def __init__(self, channel: str, errors: tuple[int, ...]) -> None:
        super().__init__()
        self._channel, self._errors = channel, errors

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.master = master = AxiMaster()
        for name, member in self.signature.members.items():
            inner, outer = getattr(master, name), getattr(self, name)
            if not member.is_port:
                wiring.connect(m, wiring.flipped(outer), inner)
            elif name == f"m_axi_{self._channel}resp":
                m.d.comb += inner.eq(Mux(Cat(outer == each for each in self._errors).any(), 2, 0))
            else:
                m.d.comb += outer.eq(inner) if member.flow == wiring.Out else inner.eq(outer)
        return m


@pytest.mark.parametrize("channel", ["r", "b"])
@pytest.mark.parametrize("errors", [(2,), (3,), (1, 2, 3)], ids=["slverr", "decerr", "exokay"])
def test_responses_are_told_apart(channel: str, errors: tuple[int, ...]) -> None:
    component, case = _Confused(channel, errors), "every_beat_finds_its_reader"
    name = f"axi_master_confused_{channel}_{''.join(map(str, errors))}"
    with pytest.raises(AssertionError, match=r"cocotb tests failed"):
        simulate(component, __file__, name=name, testcase=case)
