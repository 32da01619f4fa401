# amaranth: UnusedElaboratable=no
"""The burst splitter: where lines are cut, what is refused, and how fast it goes."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from dma_model import (
    CONFIGS,
    FAULT_KINDS,
    FaultSeen,
    bad_command,
    line_bytes,
    pack_commands,
    pack_windows,
    random_command,
)
from splitter_bench import start, wide_command, wide_windows

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES, WindowBinding
from tpulite.arch.registers import Fault
from tpulite_rtl.dma.burst_splitter import BurstSplitter
from tpulite_tb.effort import repeats
from tpulite_tb.harness import simulate
from tpulite_testing.regress import breadth


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5])
async def cuts_every_line(dut, stall: float) -> None:
    """Issue every burst of random commands, with everything that belongs to it."""
    bench = await start(dut, stall=stall)
    commands = [random_command(bench.config, bench.windows, bench.opcode) for _ in range(60)]
    bench.commands.extend(pack_commands(commands))
    await bench.settled()
    bench.check(commands)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(kind=FAULT_KINDS, late=[False, True])
async def refuses_what_is_illegal(dut, kind: str, late: bool) -> None:
    """Show the right fault at the right place, and nothing afterwards."""
    bench = await start(dut, stall=0.3)
    commands = [bad_command(bench.config, bench.windows, bench.opcode, kind)]
    commands += [random_command(bench.config, bench.windows, bench.opcode) for _ in range(3)]
    if late:
        commands = commands[::-1]
    bench.commands.extend(pack_commands(commands))
    while bench.fault() is None:
        await RisingEdge(dut.clk)
    for _ in range(300):
        await RisingEdge(dut.clk)
    bench.check(commands)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(excess=[0, 1])
async def window_is_exact(dut, excess: int) -> None:
    """Accept a line up to a window's last byte, and not one beat more."""
    bench = await start(dut, stall=0.0, retire=1.0)
    rows = 64
    size = line_bytes(bench.config, rows)
    window = WindowBinding(base=3 * PAGE_BYTES - 32, size=size + 64, read=True, write=True)
    bench.windows = (window,) * 4
    dut.windows.value = pack_windows(bench.windows)
    commands = [
        Command.make(bench.opcode, window=3, offset=64 + excess * BEAT_BYTES, rows=rows, lines=1)
    ]
    bench.commands.extend(pack_commands(commands))
    await bench.commands.drained()
    for _ in range(200):
        await RisingEdge(dut.clk)
    assert (bench.fault() is not None) == bool(excess)
    bench.check(commands)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def windows_have_all_bits_of_their_size(dut) -> None:
    """Reach the last bytes of windows that are a power of two long: were it lost, none would do."""
    bench = await start(dut, stall=0.0, retire=1.0)
    rows = min(2 * PAGE_BYTES // bench.config.row_bytes, bench.config.ub_rows)
    size = rows * bench.config.row_bytes
    for number, bit in enumerate(range(PAGE_BYTES.bit_length() + 1, 32)):
        base = random.randrange(1 << ADDRESS_BITS - 16) << 12
        bench.windows = (WindowBinding(base=base, size=1 << bit, read=True, write=True),) * 4
        dut.windows.value = pack_windows(bench.windows)
        offset = (1 << bit) - size
        before = sum(beats for _, beats in bench.addresses)
        command = Command.make(bench.opcode, offset=offset, rows=rows, lines=1)
        bench.commands.extend(pack_commands([command], start=number))
        await bench.settled()
        assert bench.shown is None, f"bit {bit}"
        assert bench.addresses[-1][0] >= base + offset
        assert sum(beats for _, beats in bench.addresses) - before == size // BEAT_BYTES


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(run=range(repeats(96)))
async def all_bits_of_offsets_and_strides_count(dut, run: int) -> None:
    """Windows and strides of any size, up to the line that leaves its window or the buffer."""
    bench = await start(dut, stall=0.0, retire=1.0)
    bench.windows = wide_windows()
    dut.windows.value = pack_windows(bench.windows)
    commands = [wide_command(bench, legal=index < 2) for index in range(3)]
    bench.commands.extend(pack_commands(commands))
    while len(bench.started) < len(commands):
        await RisingEdge(dut.clk)
    last = None
    while last != (last := (len(bench.addresses), bench.outstanding)) or bench.outstanding:
        await ClockCycles(dut.clk, 20)
    bench.check(commands)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def lines_have_all_bits_of_their_number_and_length(dut) -> None:
    """Almost as many lines as a command can have, and some as long as the buffer and shorter.

    The number is even, and a line takes any number of cycles: what goes wrong in each does not
    cancel out.
    """
    bench = await start(dut, stall=0.0, retire=0.8)
    size = 1 << 24
    bench.windows = (WindowBinding(base=0, size=size, read=True, write=True),) * 4
    dut.windows.value = pack_windows(bench.windows)
    many = (1 << 12) - 2
    pitch = bench.config.ub_rows // many
    commands = [
        Command.make(bench.opcode, lines=many, rows=1, stride=BEAT_BYTES, pitch=pitch),
        Command.make(bench.opcode, lines=1, rows=bench.config.ub_rows),
        *(
            Command.make(bench.opcode, lines=1, rows=random.randrange(1, bench.config.ub_rows))
            for _ in range(4)
        ),
    ]
    bench.commands.extend(pack_commands(commands))
    await bench.settled()
    bench.check(commands)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def an_address_waits_for_nobody(dut) -> None:
    """It is valid before it is accepted, stays so, and is gone after reset."""
    bench = await start(dut, stall=0.0)
    bench.address.stall(1)
    await ClockCycles(dut.clk, 2)
    command = random_command(bench.config, bench.windows, bench.opcode)
    bench.commands.extend(pack_commands([command]))
    while not bench.started:
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 2)
    for _ in range(10):
        assert dut.address__valid.value
        await RisingEdge(dut.clk)
    assert not bench.addresses and len(bench.descriptors) == 1
    dut.rst.value = 1
    await ClockCycles(dut.clk, 1)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 1)
    assert not dut.address__valid.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def addresses_do_not_wrap(dut) -> None:
    """Refuse a burst beyond the last address, though its window would reach there."""
    bench = await start(dut, stall=0.0, retire=1.0)
    top = 1 << ADDRESS_BITS
    window = WindowBinding(base=top - PAGE_BYTES, size=1 << 20, read=True, write=True)
    bench.windows = (window,) * 4
    dut.windows.value = pack_windows(bench.windows)
    rows = min(PAGE_BYTES // bench.config.row_bytes, bench.config.ub_rows)
    offset = PAGE_BYTES - 16 * BEAT_BYTES
    command = Command.make(bench.opcode, offset=offset, rows=rows, lines=1)
    bench.commands.extend(pack_commands([command]))
    await bench.commands.drained()
    for _ in range(200):
        await RisingEdge(dut.clk)
    assert bench.fault() == FaultSeen(Fault.WINDOW, 0, 0)
    assert sum(beats for _, beats in bench.addresses) == 16


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(lines=[1, 2])
async def strides_may_lead_beyond_the_last_address(dut, lines: int) -> None:
    """Of a last line nothing depends on it; a line that begins there is refused, from its start."""
    bench = await start(dut, stall=0.0, retire=1.0)
    top = 1 << ADDRESS_BITS
    window = WindowBinding(base=top - PAGE_BYTES, size=1 << 20, read=True, write=True)
    bench.windows = (window,) * 4
    dut.windows.value = pack_windows(bench.windows)
    command = Command.make(bench.opcode, rows=1, lines=lines, stride=PAGE_BYTES, pitch=1)
    bench.commands.extend(pack_commands([command, command.replace(lines=1, stride=0)]))
    await ClockCycles(dut.clk, 200)
    assert bench.fault() == (None if lines == 1 else FaultSeen(Fault.WINDOW, 0, 0))
    assert [address for address, _ in bench.addresses] == [window.base] * (3 - lines)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def issues_a_burst_a_cycle(dut) -> None:
    """First address two cycles after the tokens, then one a cycle, also from line to line."""
    bench = await start(dut, stall=0.0, retire=1.0)
    window = bench.windows.index(next(w for w in bench.windows if w.read and w.write))
    command = Command.make(bench.opcode, window=window, lines=40, rows=1, stride=48, pitch=1)
    bench.commands.extend(pack_commands([command] * 5))
    await bench.settled()
    bench.check([command] * 5)
    times = [now for now, _ in bench.descriptors]
    bursts = len(times) // 5
    assert times[0] == bench.started[0][0] + 2  # as the address
    every = 1 if bench.config.dma_bursts > 1 else 2  # each is retired in the cycle after
    assert times[bursts - 1] == times[0] + every * (bursts - 1)
    assert times[bursts] == times[bursts - 1] + 3


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.7], moment=range(5))
async def stops_at_any_moment(dut, stall: float, moment: int) -> None:
    """Keep a valid address until it is accepted; take, issue and report nothing else."""
    bench = await start(dut, stall=stall)
    commands = [random_command(bench.config, bench.windows, bench.opcode) for _ in range(20)]
    bench.commands.extend(pack_commands(commands))
    for _ in range(40 * moment + random.randint(2, 40)):
        await RisingEdge(dut.clk)
    dut.stop.value = 1
    await RisingEdge(dut.clk)
    accepted, issued = len(bench.started), len(bench.descriptors)
    for _ in range(200):
        await RisingEdge(dut.clk)
        assert not dut.take__valid.value and bench.shown is None
    assert len(bench.started) <= accepted + 1 and len(bench.descriptors) <= issued + 1
    assert len(bench.addresses) == len(bench.descriptors)
    assert not dut.address__valid.value


@pytest.mark.parametrize(
    ("machine", "opcode"),
    [
        ("4", Opcode.LOAD),
        ("16", Opcode.STORE),
        *breadth("rows of two beats are in the benches of both engines", ("32", Opcode.LOAD)),
        *breadth(
            "of other widths alone, so that mutants of the chip have twins",
            ("small", Opcode.LOAD),
            ("small", Opcode.STORE),
        ),
    ],
)
def test_burst_splitter(machine, opcode):
    simulate(
        BurstSplitter(CONFIGS[machine], opcode),
        __file__,
        name=f"burst_splitter_{machine}_{opcode.name.lower()}",
        extra_env={"MACHINE": machine, "OPCODE": opcode.name},
    )


def test_rejects_other_opcodes():
    with pytest.raises(
        ValueError, match=r"^Opcode of a DMA engine must be LOAD or STORE, not <Opcode.CONV: 3>$"
    ):
        BurstSplitter(Config(), Opcode.CONV)
