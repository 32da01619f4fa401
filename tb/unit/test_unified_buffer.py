"""The unified buffer against a dictionary of rows."""

import os
import random
from collections import deque
from dataclasses import replace

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.timing import STARVED, row_read
from tpulite_rtl.ub.unified_buffer import UnifiedBuffer
from tpulite_tb.harness import reset, simulate
from tpulite_tb.machines import SMALL

_WRITERS = ("drain", "load", "copy")
MACHINES = {
    "pairs": (Config(array_size=16, ub_rows=64), ("activation", "weight", "store"), _WRITERS),
    "4": (
        Config(array_size=4, ub_rows=64, ram_registers=True),
        ("vector", "weight", "store"),
        _WRITERS,
    ),
    "small": (SMALL, ("activation", "weight", "record", "vpu_a", "vpu_b", "store"), _WRITERS),
    "large": (replace(SMALL, ub_rows=16384), ("activation", "operand"), ("drain", "load", "vpu")),
}
"""Machines, their readers and writers: one of which two readers may be steady, one with registers
behind its RAMs, that of the chip's benches, and one whose rows have all bits."""


class _Port:
    """A client: holds a request until it is accepted, like any stream."""

    def __init__(self, dut, name: str, *, rows, idle: float) -> None:
        self.request = {
            part: getattr(dut, f"{name}__request__{part}") for part in ("valid", "payload", "ready")
        }
        self.name, self.rows, self.idle = name, rows, idle
        self.offer: int | None = None
        self.refused = self.worst = self.accepted = 0
        self.request["valid"].value = 0

    def drive(self, payload) -> None:
        if self.offer is None and random.random() >= self.idle:
            self.offer = payload(next(self.rows))
        self.request["valid"].value = self.offer is not None
        self.request["payload"].value = self.offer or 0

    def sample(self) -> int | None:
        """Return the request that this cycle accepted."""
        if self.offer is None:
            return None
        if not self.request["ready"].value:
            self.refused += 1
            self.worst = max(self.worst, self.refused)
            return None
        offer, self.offer, self.refused = self.offer, None, 0
        self.accepted += 1
        return offer


class _Turns:
    """Who wins each bank, by the rule: who has been refused STARVED times, then who comes first."""

    def __init__(self, ports: list[_Port], banks: int) -> None:
        self.ports, self.banks = ports, banks

    def check(self, absolute: int) -> None:
        """Compare who is accepted in this cycle.

        Nobody goes before a port of which ``absolute`` has the bit; no two of these want one bank.
        """
        best: dict[int, tuple[bool, bool, int]] = {}
        for index, port in enumerate(self.ports):
            if port.offer is not None:
                bank = port.offer % self.banks
                mine = (not absolute >> index & 1, port.refused < STARVED, index)
                best[bank] = min(best.get(bank, mine), mine)
        winners = {index for *_, index in best.values()}
        for index, port in enumerate(self.ports):
            if port.offer is not None:
                assert port.request["ready"].value == (index in winners), port.name


def _rows(kind: str, crowd: list[int], count: int):
    if kind == "crowd":  # most want one bank, for some time
        return iter(lambda: random.choice([random.randrange(count), *crowd * 4]), None)
    if kind == "same_bank":
        return iter(lambda: 8 * random.randrange(count // 8), None)
    return _walk(kind, count)


def _walk(kind: str, count: int):
    row = random.randrange(count)
    while True:
        yield row
        row = random.randrange(count) if kind == "random" else (row + 1) % count


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(kind=["random", "walk", "crowd", "same_bank"], idle=[0.0, 0.5])
async def reads_what_was_written(dut, kind: str, idle: float) -> None:
    """Every port is busy; order, latency, priority and data are right in each cycle."""
    config, names, writes = MACHINES[os.environ["MACHINE"]]
    width = 8 * config.row_bytes
    crowd = [0]
    dut.steady.value = 0
    readers, writers = (
        [_Port(dut, name, rows=_rows(kind, crowd, config.ub_rows), idle=idle) for name in ports]
        for ports in ([f"read_{name}" for name in names], [f"write_{name}" for name in writes])
    )
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge

    memory = dict.fromkeys(range(config.ub_rows), None)
    pending = [deque() for _ in readers]
    refused = accepted = 0
    for cycle in range(1500):
        crowd[0] = cycle // 180
        for port in readers:
            port.drive(lambda row: row)
        steady = _steady(len(dut.steady), readers, config) if kind == "crowd" else 0
        steady *= cycle % 100 < 40
        dut.steady.value = steady
        for port in writers:
            port.drive(lambda row: random.getrandbits(width) << 14 | row)
        await edge
        _Turns(readers, config.ub_banks).check(steady)
        _Turns(writers, config.ub_banks).check(1)
        written: dict[int, int] = {}
        waiting = [port.offer is not None for port in readers + writers]
        for port, name, queue in zip(readers, names, pending, strict=True):
            valid = getattr(dut, f"read_{name}__response__valid").value
            payload = getattr(dut, f"read_{name}__response__payload").value
            if queue and queue[0][0] == cycle:
                _, expected = queue.popleft()
                assert valid == 1, f"{name} got no answer"
                assert expected is None or payload == expected, f"{name} read wrong data"
            else:
                assert valid == 0, f"{name} got an answer that it did not ask for"
            if (row := port.sample()) is not None:
                queue.append((cycle + row_read(config), row))
        for port in writers:
            if (offer := port.sample()) is not None:
                written[offer & (config.ub_rows - 1)] = offer >> 14
        for queue in pending:
            if queue and queue[-1][0] == cycle + row_read(config):
                # A row that is read while it is written is unknown.
                row = queue[-1][1]
                queue[-1] = (cycle + row_read(config), None if row in written else memory[row])
        memory |= written
        assert dut.conflicts.value == refused
        assert dut.accessed.value == (accepted > 0)
        refused = sum(
            w and port.offer is not None for w, port in zip(waiting, readers + writers, strict=True)
        )
        accepted = sum(waiting) - refused
        assert writers[0].worst == 0, "the drain had to wait"

    if kind == "crowd":  # of which the first reader may take all
        return
    for port in readers:
        # A starving port waits for at most one turn of each other starving port.
        assert port.worst <= STARVED + len(readers), f"{port.name} starved"
        assert port.accepted > 1500 // (STARVED + 2 * len(readers))
    if kind != "same_bank":  # there the drain takes all, as it may
        assert min(port.accepted for port in writers) > 500


def _steady(bits: int, readers: list[_Port], config: Config) -> int:
    """Draw which ports are steady: not both that want the same bank."""
    if bits == 1:
        return 1
    banks = [port.offer % config.ub_banks for port in readers[:2] if port.offer is not None]
    if len(banks) > len(set(banks)):
        return random.choice([0, 1])
    return random.randrange(4)


def _two_readers(dut) -> tuple[_Port, _Port]:
    """Return the first two readers, which always ask for one bank; the others are idle."""
    dut.steady.value = 0
    _config, names, writers = MACHINES[os.environ["MACHINE"]]
    first, second = (
        _Port(dut, f"read_{name}", rows=iter(lambda: 8, None), idle=0) for name in names[:2]
    )
    for name in names[2:]:
        _Port(dut, f"read_{name}", rows=iter(()), idle=1)
    for name in writers:
        _Port(dut, f"write_{name}", rows=iter(()), idle=1)
    return first, second


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def first_reader_wins(dut) -> None:
    """Two readers of one bank: the first is refused only when the other starves."""
    first, second = _two_readers(dut)
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    for _ in range(10 * (STARVED + 1)):
        first.drive(lambda row: row)
        second.drive(lambda row: row)
        await edge
        first.sample()
        second.sample()
    assert second.accepted == 10
    assert first.accepted == 10 * STARVED


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def steady_reader_never_waits(dut) -> None:
    """Two readers of one bank: the second gets its turns between the steady times."""
    first, second = _two_readers(dut)
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    for length in (1, STARVED, 3 * STARVED, 100):
        dut.steady.value = 1
        before = second.accepted
        for _ in range(length):
            first.drive(lambda row: row)
            second.drive(lambda row: row)
            await edge
            assert first.sample() is not None, "the steady reader was refused"
            second.sample()
        assert second.accepted == before
        # A single cycle is enough for a port that starves.
        dut.steady.value = 0
        first.drive(lambda row: row)
        second.drive(lambda row: row)
        await edge
        first.sample()
        second.sample()
        assert second.accepted == before + (length >= STARVED)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def steady_reader_leaves_other_banks_alone(dut) -> None:
    """A reader of another bank, or without a rival, is not touched."""
    first, second = _two_readers(dut)
    first.rows = iter(lambda: 9, None)
    dut.steady.value = 1
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    for cycle in range(20):
        if cycle < 10:
            first.drive(lambda row: row)
        else:
            first.request["valid"].value = 0
        second.drive(lambda row: row)
        await edge
        first.sample()
        assert second.sample() is not None


@pytest.mark.parametrize("machine", MACHINES)
def test_unified_buffer(machine: str) -> None:
    config, readers, writers = MACHINES[machine]
    simulate(
        UnifiedBuffer(config, readers=readers, writers=writers),
        __file__,
        name=f"unified_buffer_{machine}",
        extra_env={"MACHINE": machine},
        build=Build(memories="macro"),
    )
