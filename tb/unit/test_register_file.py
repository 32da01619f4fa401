"""Register file over AXI4-Lite."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp
from counter_port import answer_counters

from tpulite.arch.config import Config
from tpulite.arch.memory import ADDRESS_BITS, WINDOWS
from tpulite.arch.registers import (
    COUNTER_OFFSETS,
    REGISTERS,
    Access,
    Control,
    Fault,
    Interrupt,
    Register,
    RunState,
    offset_of,
)
from tpulite_rtl.bus.register_file import OFFSET_BITS, RegisterFile
from tpulite_rtl.bus.registers import PROGRAM, WINDOW_ARRAY
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import runs

CONFIG = Config()
LEGAL = {
    Control.START: {RunState.IDLE},
    Control.STOP: {RunState.RUNNING},
    Control.RESET: {RunState.IDLE, RunState.QUIESCED},
}


class Bench:
    """The register file behind cocotbext-axi's master."""

    def __init__(self, dut, *, stall: float = 0.0) -> None:
        self.dut = dut
        self.bus = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        if stall:
            for channel in (
                self.bus.write_if.aw_channel,
                self.bus.write_if.w_channel,
                self.bus.write_if.b_channel,
                self.bus.read_if.ar_channel,
                self.bus.read_if.r_channel,
            ):
                channel.set_pause_generator(pauses(stall))
        dut.state.value = RunState.IDLE
        dut.interrupt.value = dut.error.value = dut.counters__found.value = 0
        self.requests: list[int] = []
        cocotb.start_soon(self._watch())

    async def write(self, offset: int, value: int) -> AxiResp:
        """Write a register and return the response."""
        return (await self.bus.write(offset, value.to_bytes(4, "little"))).resp

    async def read(self, offset: int) -> int:
        """Read a register, which must succeed."""
        response = await self.bus.read(offset, 4)
        assert response.resp == AxiResp.OKAY, hex(offset)
        return int.from_bytes(response.data, "little")

    async def _watch(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value == 0 and self.dut.control.value != 0:
                self.requests.append(self.dut.control.value.to_unsigned())


def pauses(stall: float):
    for go, pause in runs(stall):
        yield from [False] * min(go, 1000) + [True] * pause


def with_access(*accesses: Access) -> list[Register]:
    return [register for register in REGISTERS if register.access in accesses]


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.6])
async def registers_keep_what_was_written(dut, stall: float) -> None:
    """In random order, each bit as 0 and as 1, there and back; what the chip sees follows."""
    bench = Bench(dut, stall=stall)
    await reset(dut)
    registers = with_access(Access.READ_WRITE)
    for register in registers:
        assert await bench.read(register.offset) == register.reset
    random.shuffle(registers)
    values = {register.name: random.getrandbits(32) for register in registers}
    for _ in range(3):
        for register in registers:
            assert await bench.write(register.offset, values[register.name]) == AxiResp.OKAY
        for register in random.sample(registers, len(registers)):
            value = values[register.name] & register.kept
            assert await bench.read(register.offset) == value, register.name
        chip_sees(dut, values)
        values = {name: value ^ 0xFFFF_FFFF for name, value in values.items()}
    assert bench.requests == []


def chip_sees(dut, values: dict[str, int]) -> None:
    """Check the outputs for registers with these values."""

    def address(name: str) -> int:
        value = values[f"{name}_HIGH"] << 32 | values[f"{name}_LOW"]
        return value % (1 << ADDRESS_BITS) & ~15

    assert dut.watchdog.value == values["WATCHDOG"]
    program = PROGRAM.from_bits(dut.program.value.to_unsigned())
    assert program.address == address("PROGRAM")
    assert program.length == min(values["PROGRAM_LENGTH"], (1 << INDEX_BITS) - 1)
    windows = WINDOW_ARRAY.from_bits(dut.windows.value.to_unsigned())
    for i in range(WINDOWS):
        assert windows[i].base == address(f"WINDOW{i}")
        assert windows[i].size == values[f"WINDOW{i}_SIZE"] & ~15
        assert windows[i].permission == values[f"WINDOW{i}_PERMISSION"] % 4


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def longest_program(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    largest = (1 << INDEX_BITS) - 1
    for length, seen in ((0, 0), (77, 77), (largest, largest), (largest + 1, largest)):
        await bench.write(offset_of("PROGRAM_LENGTH"), length)
        assert PROGRAM.from_bits(dut.program.value.to_unsigned()).length == seen


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def strobes_select_bytes(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    offset = offset_of("WINDOW2_LOW")
    expected = bytearray(4)
    for _ in range(20):
        first = random.randrange(4)
        data = random.randbytes(random.randint(1, 4 - first))
        response = await bench.bus.write(offset + first, data)
        assert response.resp == AxiResp.OKAY
        expected[first : first + len(data)] = data
        assert await bench.read(offset) == int.from_bytes(expected, "little") & ~15
    # A request whose byte is not written is none.
    assert (await bench.bus.write(offset_of("CONTROL") + 1, bytes(3))).resp == AxiResp.OKAY
    assert (await bench.bus.write(offset_of("CONTROL") + 1, b"\1")).resp == AxiResp.SLVERR
    assert bench.requests == []


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def chip_is_shown(dut) -> None:
    """Two faults and their counters, of which the second is the first with all bits inverted."""
    bench = Bench(dut, stall=0.3)
    await reset(dut)
    shown = dict.fromkeys(COUNTER_OFFSETS, 0)
    cocotb.start_soon(answer_counters(dut, "counters", shown, pauses(0.5)))
    index, address = random.getrandbits(INDEX_BITS), random.getrandbits(ADDRESS_BITS)
    shown.update({name: random.getrandbits(32) for name in COUNTER_OFFSETS})
    for state, code in ((RunState.QUIESCED, Fault.WINDOW), (RunState.HUNG, Fault.WATCHDOG)):
        fault = {"valid": 1, "code": code, "index": index, "address": address}
        dut.state.value = state
        dut.error.value = FAULT.const(fault).as_bits()
        expected = {
            "CONFIG_HASH": CONFIG.hash,
            "STATUS": state,
            "ERROR_CODE": code,
            "ERROR_INDEX": index,
            "ERROR_LOW": address & 0xFFFFFFFF,
            "ERROR_HIGH": address >> 32,
        } | {name.upper(): value for name, value in shown.items()}
        for register in with_access(Access.READ):
            value = expected.get(register.name, register.reset)
            assert await bench.read(register.offset) == value, register.name
            assert await bench.write(register.offset, random.getrandbits(32)) == AxiResp.SLVERR
            assert await bench.read(register.offset) == value, register.name
        index ^= (1 << INDEX_BITS) - 1
        address ^= (1 << ADDRESS_BITS) - 1
        shown.update({name: value ^ 0xFFFFFFFF for name, value in shown.items()})


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def unknown_offsets_are_refused(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    known = {register.offset for register in REGISTERS}
    unknown = sorted(set(range(0, 1 << OFFSET_BITS, 4)) - known)
    beside = {offset ^ 1 << bit for offset in known for bit in range(2, OFFSET_BITS)} - known
    for offset in sorted(beside) + random.sample(unknown, 30):
        assert await bench.write(offset, 7) == AxiResp.SLVERR
        assert (await bench.bus.read(offset, 4)).resp == AxiResp.SLVERR
    for register in with_access(Access.READ_WRITE):
        assert await bench.read(register.offset) == register.reset
    assert await bench.read(offset_of("CONTROL")) == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def requests_are_legal_in_their_states_only(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    for state in RunState:
        dut.state.value = state
        for value in range(16):
            bench.requests.clear()
            legal = value == 0 or (value in LEGAL and state in LEGAL[Control(value)])
            response = await bench.write(offset_of("CONTROL"), value)
            assert response == (AxiResp.OKAY if legal else AxiResp.SLVERR), (state, value)
            await ClockCycles(dut.clk, 2)
            assert bench.requests == ([value] if legal and value else []), (state, value)
    bench.requests.clear()
    for request, states in LEGAL.items():
        dut.state.value = min(states)
        for bit in range(4, 32):
            for value in (1 << bit, 1 << bit | request):
                assert await bench.write(offset_of("CONTROL"), value) == AxiResp.SLVERR, hex(value)
    assert bench.requests == []


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def interrupts_stay_until_cleared(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    status, enable = offset_of("IRQ_STATUS"), offset_of("IRQ_ENABLE")

    async def happen(interrupt: Interrupt) -> None:
        dut.interrupt.value = interrupt
        await RisingEdge(dut.clk)
        dut.interrupt.value = 0
        await ClockCycles(dut.clk, 2)

    await happen(Interrupt.DONE)
    assert await bench.read(status) == Interrupt.DONE and dut.irq.value == 0
    await bench.write(enable, Interrupt.FAULT)
    assert dut.irq.value == 0
    await bench.write(enable, Interrupt.DONE)
    assert dut.irq.value == 1
    await happen(Interrupt.FAULT)
    await bench.write(status, 0)
    assert await bench.read(status) == Interrupt.DONE | Interrupt.FAULT
    await bench.write(status, Interrupt.DONE)
    assert await bench.read(status) == Interrupt.FAULT and dut.irq.value == 0
    every = Interrupt.DONE | Interrupt.FAULT
    for cleared in (Interrupt.FAULT, Interrupt.DONE, every):
        await happen(every)
        await bench.write(status, cleared)
        assert await bench.read(status) == every & ~cleared


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(late=[False, True])
async def interrupt_in_the_cycle_of_its_clearing_stays(dut, late: bool) -> None:
    """Without the master: a write takes effect in the cycle after its halves were accepted."""
    dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = dut.s_axil_arvalid.value = 0
    dut.s_axil_bready.value, dut.s_axil_wstrb.value = 1, 0xF
    dut.interrupt.value = 0
    await reset(dut)

    async def write(name: str, value: int) -> None:
        dut.s_axil_awaddr.value, dut.s_axil_wdata.value = offset_of(name), value
        dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 1
        await RisingEdge(dut.clk)
        dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 0

    await RisingEdge(dut.clk)
    await write("IRQ_ENABLE", Interrupt.FAULT)
    await ClockCycles(dut.clk, 5)
    dut.interrupt.value = 0 if late else Interrupt.FAULT
    await write("IRQ_STATUS", Interrupt.FAULT)
    dut.interrupt.value = Interrupt.FAULT if late else 0
    await RisingEdge(dut.clk)
    dut.interrupt.value = 0
    await ClockCycles(dut.clk, 3)
    assert dut.irq.value == late


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(first=["address", "data", "both"])
async def address_and_data_come_in_any_order(dut, first: str) -> None:
    """Without the master: the other half comes late, and so does BREADY.

    A channel is zero after its transfer.
    """
    signals = {
        "address": (dut.s_axil_awvalid, dut.s_axil_awready, [dut.s_axil_awaddr]),
        "data": (dut.s_axil_wvalid, dut.s_axil_wready, [dut.s_axil_wdata, dut.s_axil_wstrb]),
    }
    for valid, _ready, _payload in signals.values():
        valid.value = 0
    dut.s_axil_bready.value = dut.s_axil_arvalid.value = dut.s_axil_rready.value = 0
    dut.interrupt.value = 0
    await reset(dut)

    async def offer(name: str) -> None:
        valid, ready, payload = signals[name]
        valid.value = 1
        await RisingEdge(dut.clk)
        while not ready.value:
            await RisingEdge(dut.clk)
        valid.value = 0
        for signal in payload:
            signal.value = 0

    for value in (0x1234, 0x5678):
        dut.s_axil_awaddr.value = offset_of("WATCHDOG")
        dut.s_axil_wdata.value, dut.s_axil_wstrb.value = value, 0xF
        await RisingEdge(dut.clk)
        for name in sorted(signals, key=lambda name: name != first):
            task = cocotb.start_soon(offer(name))
            if first != "both":
                await task
                await ClockCycles(dut.clk, 5)
                if name == first:
                    assert not dut.s_axil_bvalid.value
        await ClockCycles(dut.clk, 5)
        assert dut.s_axil_bvalid.value and dut.s_axil_bresp.value == AxiResp.OKAY
        assert dut.watchdog.value == value
        dut.s_axil_bready.value = 1
        await RisingEdge(dut.clk)
        dut.s_axil_bready.value = 0
        await ClockCycles(dut.clk, 2)
        assert not dut.s_axil_bvalid.value, "two responses"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def bytes_of_an_address_and_protection_do_not_count(dut) -> None:
    """Without the master: a read of any byte returns the word, whatever the access may do."""
    dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = dut.s_axil_arvalid.value = 0
    dut.s_axil_bready.value = dut.s_axil_rready.value = 1
    dut.interrupt.value = 0
    await reset(dut)

    async def access(channel: str, answer: str, offset: int, protection: int) -> None:
        signals = {n: getattr(dut, f"s_axil_{channel}{n}") for n in ("addr", "prot", "valid")}
        signals["addr"].value, signals["prot"].value = offset, protection
        signals["valid"].value = 1
        await RisingEdge(dut.clk)
        signals["valid"].value = dut.s_axil_wvalid.value = 0
        while not getattr(dut, f"s_axil_{answer}valid").value:
            await RisingEdge(dut.clk)
        assert getattr(dut, f"s_axil_{answer}resp").value == AxiResp.OKAY

    await RisingEdge(dut.clk)
    for protection in (*range(8), 0):
        dut.s_axil_wdata.value, dut.s_axil_wstrb.value = protection, 0xF
        dut.s_axil_wvalid.value = 1
        await access("aw", "b", offset_of("WATCHDOG"), protection)
        assert dut.watchdog.value == protection
        for byte in (0, 1, 2, 3, 0):
            await access("ar", "r", offset_of("WATCHDOG") + byte, protection)
            assert dut.s_axil_rdata.value == protection


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def bytes_without_a_strobe_do_not_count(dut) -> None:
    """Without the master: whatever such bytes hold, a request is one, and a register keeps them."""
    dut.s_axil_arvalid.value = dut.s_axil_rready.value = dut.interrupt.value = 0
    dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 0
    dut.s_axil_bready.value, dut.state.value = 1, RunState.IDLE
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    kept = 0
    for strobes in (1, 2, 4, 8, 15, 3, 12, 0):
        mask = sum(0xFF << 8 * byte for byte in range(4) if strobes >> byte & 1)
        for name in ("WATCHDOG", "CONTROL"):
            value = random.getrandbits(32)
            if name == "CONTROL":
                value = value & ~mask | (Control.START if strobes & 1 else 0)
            dut.s_axil_awaddr.value = offset_of(name)
            dut.s_axil_wdata.value, dut.s_axil_wstrb.value = value, strobes
            dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 1
            await edge
            dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 0
            seen = 0
            for _ in range(4):
                await edge
                seen |= int(dut.control.value)
            assert dut.s_axil_bresp.value == AxiResp.OKAY
            if name == "CONTROL":
                assert seen == (Control.START if strobes & 1 else 0), hex(strobes)
            else:
                kept = kept & ~mask | value & mask
                assert dut.watchdog.value == kept


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_chip_sees_bytes_as_soon_as_the_response_comes(dut) -> None:
    """Without the master: of every register, in random order, any of its bytes."""
    for name in ("arvalid", "awvalid", "wvalid"):
        getattr(dut, f"s_axil_{name}").value = 0
    dut.interrupt.value, dut.s_axil_bready.value = 0, 1
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    values = {register.name: register.reset for register in with_access(Access.READ_WRITE)}
    writes = [(name, strobes) for name in values for strobes in (15, 1, 2, 4, 8, 6, 9)]
    for name, strobes in random.sample(writes, len(writes)):
        mask = sum(0xFF << 8 * byte for byte in range(4) if strobes >> byte & 1)
        value = random.getrandbits(32)
        dut.s_axil_awaddr.value = offset_of(name)
        dut.s_axil_wdata.value, dut.s_axil_wstrb.value = value, strobes
        dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 1
        await edge
        dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 0
        while not dut.s_axil_bvalid.value:
            chip_sees(dut, values)
            await edge
        values[name] = values[name] & ~mask | value & mask
        chip_sees(dut, values)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_second_transfer_waits(dut) -> None:
    """Without the master: nothing is taken in reset, and of each channel one until it is done."""
    channels = ("aw", "w", "ar")
    valid = {name: getattr(dut, f"s_axil_{name}valid") for name in channels}
    ready = {name: getattr(dut, f"s_axil_{name}ready") for name in channels}
    for name in channels:
        valid[name].value = 1
    dut.s_axil_bready.value = dut.s_axil_rready.value = dut.interrupt.value = 0
    dut.state.value = dut.error.value = dut.counters__found.value = 0
    dut.s_axil_awaddr.value = dut.s_axil_araddr.value = offset_of("WATCHDOG")
    dut.s_axil_wdata.value, dut.s_axil_wstrb.value = 1, 0xF
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    assert not any(signal.value for signal in ready.values()), "in reset"
    await edge  # all three are taken
    assert all(signal.value for signal in ready.values())
    valid["w"].value = 0
    dut.s_axil_awaddr.value, dut.s_axil_wdata.value = offset_of("WINDOW0_LOW"), 0x70
    for _ in range(5):  # written; the second address is taken, and waits for its value
        await edge
    assert dut.s_axil_bvalid.value and dut.watchdog.value == 1
    assert not ready["aw"].value and not ready["ar"].value and ready["w"].value
    assert dut.s_axil_rvalid.value
    valid["w"].value = 1
    for _ in range(3):  # the second value is taken; both wait for the first response
        await edge
    assert not ready["w"].value and not ready["aw"].value
    assert WINDOW_ARRAY.from_bits(dut.windows.value.to_unsigned())[0].base == 0
    valid["aw"].value = valid["w"].value = 0
    dut.s_axil_bready.value = 1
    for _ in range(4):
        await edge
    assert WINDOW_ARRAY.from_bits(dut.windows.value.to_unsigned())[0].base == 0x70


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_counter_is_waited_for(dut) -> None:
    """Without the master: no other address is taken until the counter is found."""
    dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 0
    dut.s_axil_arvalid.value = dut.s_axil_rready.value = 1
    dut.interrupt.value = dut.counters__found.value = 0
    dut.s_axil_araddr.value = next(iter(COUNTER_OFFSETS.values()))
    await reset(dut)
    edge = RisingEdge(dut.clk)
    for _ in range(3):
        await edge
    row = int(dut.counters__row.value)
    for number in range(10):
        dut.s_axil_araddr.value = 4 * number
        await edge
        assert dut.counters__wanted.value and not dut.s_axil_arready.value
        assert dut.counters__row.value == row and not dut.s_axil_rvalid.value
    dut.s_axil_arvalid.value = 0
    dut.counters__found.value, dut.counters__value.value = 1, 77
    await edge
    dut.counters__found.value = 0
    await edge
    assert dut.s_axil_rvalid.value and dut.s_axil_rdata.value == 77


def test_register_file():
    simulate(RegisterFile(CONFIG), __file__, name="register_file")
