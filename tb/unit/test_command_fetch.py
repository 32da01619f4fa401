"""Command fetch: bursts, order, latency, faults and stop."""

import random
from itertools import product

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from fetch_bench import BUFFER_BEATS, BURST_BEATS, CONFIG, FetchBench, config_of
from fetch_memory import some_address

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES
from tpulite.arch.isa import COMMANDS, Drain, Opcode
from tpulite.arch.memory import PAGE_BYTES
from tpulite.arch.registers import Fault
from tpulite_rtl.bus.registers import PROGRAM
from tpulite_rtl.cp.command_fetch import CommandFetch
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_tb.commands import illegal_values, random_command, raw_word
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def program_is_delivered(dut, idle: float, stall: float) -> None:
    """Programs of many lengths, one after the other."""
    bench = FetchBench(dut, idle=idle, stall=stall)
    bench.place(length=0, address=0)
    await reset(dut)
    for length in (1, 2, 17, random.randrange(3, 150)):
        bench.place(length=length, address=some_address())
        await bench.start()
        await bench.delivered(length)
        await ClockCycles(dut.clk, 8)
        assert bench.commands == [(word, index) for index, word in enumerate(bench.memory.words)]
        assert bench.memory.requested == bench.memory.answered == 2 * length
        assert dut.quiet.value and bench.fault is None


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def bursts_end_with_the_page(dut) -> None:
    """The first one or the second one, of a program that begins some beats before its end."""
    bench = FetchBench(dut)
    bench.place(length=0, address=0)
    await reset(dut)
    for beats in (1, 2, 3, BURST_BEATS + 1, BURST_BEATS + 2):
        bench.place(length=BURST_BEATS, address=9 * PAGE_BYTES - BEAT_BYTES * beats)
        await bench.start()
        await bench.delivered(BURST_BEATS)
        await ClockCycles(dut.clk, 8)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def every_field_is_judged(dut) -> None:
    """Each field with what it must not be, each bit alone in its field, each beyond the fields."""
    words = []
    for opcode, layout in COMMANDS.items():
        for field in layout.fields[1:]:
            bits = [1 << bit for bit in range(field.width - field.signed)]
            for value in [*illegal_values(field), field.range[0], field.range[-1], *bits]:
                words.append(raw_word(random_command(opcode, CONFIG), **{field.name: value}))
        word = raw_word(random_command(opcode, CONFIG))
        words += [word | 1 << bit for bit in range(layout.width, 8 * COMMAND_BYTES)]
    words += [random.getrandbits(252) << 4 | opcode for opcode in range(16)]
    depthwise = {"depthwise": 1, "byte_step": 0, "drain": Drain.KEEP}
    for bit in range(11):
        command = random_command(Opcode.CONV, CONFIG).replace(**depthwise)
        words.append(raw_word(command, blocks=1 | 1 << bit))
    for fields in ({"depthwise": 1}, {"byte_step": 3}, {"byte_step": 31}):
        for _ in range(repeats(40)):
            command = random_command(Opcode.CONV, CONFIG).replace(**fields)
            together = {"blocks": random.choice([1, 1, 2, 1 << random.randrange(11)])}
            words.append(raw_word(command, **together))
    bench = FetchBench(dut)
    bench.place_words(words, some_address())
    await reset(dut)
    await bench.start()
    await bench.delivered(len(words))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(how=["stop", "ended"])
async def offers_are_withdrawn(dut, how: str) -> None:
    """A command that waits is no longer offered in the cycle of a stop, nor after it."""
    bench = FetchBench(dut, watch=False)
    bench.place(length=20, address=some_address())
    bench.sink.stall(1)
    await reset(dut)
    await bench.start()
    while not dut.o__valid.value:
        await RisingEdge(dut.clk)
    getattr(dut, how).value = 1
    for _ in range(20):
        await RisingEdge(dut.clk)
        assert not dut.o__valid.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_withdraws_a_burst(dut) -> None:
    """A burst that nobody has accepted is gone after reset."""
    bench = FetchBench(dut, watch=False)
    bench.place(length=20, address=some_address())
    bench.memory.requests.stall(1)
    await reset(dut)
    await bench.start()
    await ClockCycles(dut.clk, 3)
    assert dut.read__ar__valid.value
    dut.rst.value = 1
    await ClockCycles(dut.clk, 1)
    dut.rst.value = 0
    for _ in range(3):
        await RisingEdge(dut.clk)
        assert not dut.read__ar__valid.value and dut.quiet.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def first_burst_and_first_command_are_early(dut) -> None:
    """AR in the cycle after start, a command in the second one after its beats, no bubbles."""
    bench = FetchBench(dut)
    bench.place(length=40, address=1 << 20)
    await reset(dut)
    await bench.start()
    await FallingEdge(dut.clk)
    assert dut.read__ar__valid.value
    beats, offers = [], []
    for cycle in range(200):
        if dut.read__r__valid.value:
            beats.append(cycle)
        if dut.o__valid.value:
            offers.append(cycle)
        await FallingEdge(dut.clk)
    assert bench.memory.bursts[0] == (1 << 20, BURST_BEATS)
    assert offers == [cycle + 2 for cycle in beats[1::2]]
    assert len(offers) == 40


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def buffer_is_kept_full(dut) -> None:
    """Request exactly the buffer while nothing is taken, then the rest."""
    bench = FetchBench(dut)
    bench.place(length=600, address=1 << 20)
    bench.sink.stall(1)
    await reset(dut)
    await bench.start()
    await ClockCycles(dut.clk, BUFFER_BEATS + 60)
    assert bench.memory.requested == bench.memory.answered == BUFFER_BEATS
    assert dut.quiet.value
    bench.sink.stall(0)
    await bench.delivered(600)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(run=range(6))
async def asks_for_no_more_than_there_is_room_for(dut, run: int) -> None:
    """Not with bursts of any length either, whenever commands are taken."""
    bench = FetchBench(dut, stall=0.5)
    length = 150
    bench.place(length=length, address=some_address())
    bench.sink.stall(run % 2)
    await reset(dut)
    await bench.start()
    await ClockCycles(dut.clk, 20)
    while len(bench.commands) < length:
        bench.sink.stall(random.choice([0, 1, 1, 1]))
        for _ in range(random.choice([1, 5, 80])):
            await RisingEdge(dut.clk)
            assert bench.memory.requested <= BUFFER_BEATS + 2 * len(bench.commands) + 2
    assert bench.commands == [(word, index) for index, word in enumerate(bench.memory.words)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def program_without_end_is_an_overrun(dut) -> None:
    bench = FetchBench(dut, idle=0.3)
    bench.place(length=0, address=0)
    await reset(dut)
    for length in (0, 1, 23):
        address = some_address()
        bench.place(length=length, address=address, has_end=False)
        await bench.start()
        await bench.delivered(length)
        await ClockCycles(dut.clk, 3)
        assert bench.fault == (Fault.OVERRUN, length, address + COMMAND_BYTES * length)
        dut.stop.value = 1
        await ClockCycles(dut.clk, 2)
        assert bench.fault is None
        assert len(bench.commands) == length
        dut.stop.value = 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_program_as_long_as_the_one_before_is_no_overrun(dut) -> None:
    """The next program has not begun in the cycle of its start."""
    bench = FetchBench(dut)
    words = [raw_word(random_command(Opcode.LOAD, CONFIG)) for _ in range(7)]
    await reset(dut)
    for _ in range(3):
        bench.place_words(words, some_address())
        await bench.start()
        while len(bench.commands) < len(words):
            await FallingEdge(dut.clk)
            assert bench.fault is None
        await ClockCycles(dut.clk, 5)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def length_has_all_of_its_bits(dut) -> None:
    """A power of two, or three commands more: the first burst is early, and others come."""
    bench = FetchBench(dut)
    bench.place(length=100, address=0)
    words = bench.memory.words
    await reset(dut)
    for bit, more in product(range(6, INDEX_BITS), (0, 3)):
        address, length = some_address(), more + (1 << bit)
        bench.place_words(words[:length], address, has_end=False)
        dut.program.value = PROGRAM.const({"address": address, "length": length}).as_bits()
        await bench.start()
        await FallingEdge(dut.clk)
        assert dut.read__ar__valid.value, f"bit {bit}"
        await bench.delivered(20)
        assert bench.fault is None, f"bit {bit}"
        dut.ended.value = 1
        await ClockCycles(dut.clk, BUFFER_BEATS + 30)
        assert dut.quiet.value and bench.memory.requested >= 2 * len(bench.commands) >= 40


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(second_beat=[False, True])
async def axi_error_is_found_when_it_is_the_commands_turn(dut, second_beat: bool) -> None:
    bench = FetchBench(dut)
    bench.place(length=0, address=0)
    await reset(dut)
    for bad in (0, 1, random.randrange(2, 30)):
        address = some_address()
        bench.place(length=40, address=address)
        bench.memory.bad_beats.add(2 * bad + second_beat)
        bench.memory.bad_beats.add(2 * bad + 2)  # the next one is not reported
        bench.sink.stall(1 if bad else 0)
        await bench.start()
        await ClockCycles(dut.clk, 60)
        assert bench.fault is None or not bad, "found before it was the command's turn"
        bench.sink.stall(0)
        await bench.delivered(bad)
        while bench.fault is None:
            await RisingEdge(dut.clk)
        await ClockCycles(dut.clk, 5)
        assert bench.fault == (Fault.FETCH, bad, address + COMMAND_BYTES * bad)
        assert bench.commands == [(word, i) for i, word in enumerate(bench.memory.words[:bad])]
        dut.stop.value = 1
        while bench.memory.answered < bench.memory.requested:
            await RisingEdge(dut.clk)
        await ClockCycles(dut.clk, 2)
        assert bench.fault is None and dut.quiet.value
        dut.stop.value = 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(how=["stop", "ended"])
async def outstanding_beats_are_dropped(dut, how: str) -> None:
    """Keep a raised AR, raise no new one, drop the beats; then fetch another program."""
    bench = FetchBench(dut, watch=False)
    bench.memory.latency = 20
    bench.place(length=100, address=1 << 20)
    bench.memory.requests.stall(1)
    await reset(dut)
    await bench.start()
    await ClockCycles(dut.clk, 5)
    signal = getattr(dut, how)
    signal.value = 1
    for _cycle in range(5):
        await FallingEdge(dut.clk)
        assert dut.read__ar__valid.value and not dut.quiet.value
    bench.memory.requests.stall(0)
    while not bench.memory.bursts:
        await RisingEdge(dut.clk)
    while bench.memory.answered < BURST_BEATS:
        await FallingEdge(dut.clk)
        assert not dut.quiet.value and not dut.o__valid.value and not dut.read__ar__valid.value
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 2)
    assert dut.quiet.value and len(bench.memory.bursts) == 1
    signal.value = 0
    await ClockCycles(dut.clk, 5)
    assert len(bench.memory.bursts) == 1, "fetching goes on after stop"

    bench.watch()
    bench.place(length=7, address=some_address())
    await bench.start()
    await bench.delivered(7)
    assert bench.commands == [(word, index) for index, word in enumerate(bench.memory.words)]


@pytest.mark.parametrize("burst_beats", [2, 16, *breadth("longer bursts only wait longer", 64)])
def test_command_fetch(burst_beats):
    simulate(
        CommandFetch(config_of(burst_beats)),
        __file__,
        name=f"command_fetch_{burst_beats}",
        extra_env={"BURST_BEATS": str(burst_beats)},
    )
