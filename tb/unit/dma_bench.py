"""What surrounds a DMA engine in its bench, whichever way the data goes."""

import os
import random
from bisect import bisect_left
from collections import Counter

from cocotb.triggers import RisingEdge
from command_index import position_of
from dma_model import (
    CONFIGS,
    FAULT_KINDS,
    Burst,
    Dram,
    FaultSeen,
    bad_command,
    make_windows,
    pack_commands,
    pack_windows,
    random_command,
    trace,
)

from tpulite.arch.isa import COMMANDS, Command, Opcode
from tpulite.arch.memory import ADDRESS_BITS
from tpulite.arch.registers import EngineState, Fault
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_tb.edges import at_each_edge, reader
from tpulite_tb.harness import reset
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

__all__ = ["ENGINE_FAULT_KINDS", "DmaBench"]

ENGINE_FAULT_KINDS = (*FAULT_KINDS, "longest")
"""What :meth:`DmaBench.bad_command` can get wrong."""


_STILL = 8
"""Cycles that an engine may be busy without a transfer."""


class DmaBench:
    """Commands, tokens and stopping; checks in every cycle what must always hold.

    A subclass adds DRAM and the buffer's port: it moves them on in :meth:`step`, says in
    :meth:`retired` which transfers end a burst, and compares data in :meth:`compare`.

    Parameters
    ----------
    dut
        The engine.
    stall : float
        Fraction of cycles in which each channel and port makes the engine wait.
    """

    opcode: Opcode
    address: str  # the address channel
    port: str  # the buffer's port
    channels: tuple[str, ...]  # the other AXI channels
    ready_channels: tuple[str, ...]  # those whose ready is random

    def __init__(self, dut, *, stall: float = 0.0) -> None:
        self.dut, self.stall = dut, stall
        self.config = CONFIGS[os.environ["MACHINE"]]
        self.draw_windows()
        self.names = ("engine__command", "engine__take", "engine__give", self.address, self.port)
        self.names += self.channels
        self._ports = {
            name: tuple(
                reader(getattr(dut, f"{name}__{part}")) for part in ("valid", "ready", "payload")
            )
            for name in self.names
        }
        status = ("state", "index", "idle", "quiet", "fault", "stop", "command__valid")
        self._status = {name: reader(getattr(dut, f"engine__{name}")) for name in status}
        self._conflict = reader(dut.conflict)
        sinks = ("engine__take", "engine__give", self.address, self.port, *self.ready_channels)
        self.sinks = {name: StreamSink(dut, name, stall=stall) for name in sinks}
        for name in (self.address, *self.ready_channels):
            StreamMonitor(dut, name)
        dut.engine__stop.value = 0
        self.clear()

    @classmethod
    async def start(cls, dut, **options) -> "DmaBench":
        """Build the bench and take the engine out of reset."""
        bench = cls(dut, **options)
        bench.commands = StreamDriver(dut, "engine__command", idle=bench.stall)
        await reset(dut)
        at_each_edge(dut.clk, bench.run)
        return bench

    def draw_windows(self) -> None:
        """Choose other windows, and what is in them."""
        self.windows = make_windows()
        self.dram = Dram(self.windows)
        self.dut.windows.value = pack_windows(self.windows)

    def clear(self) -> None:
        """Forget everything that was seen."""
        self.now = 0
        self.seen: dict[str, list[tuple[int, int]]] = {name: [] for name in self.names}
        self.states: Counter[tuple[EngineState, int]] = Counter()
        self.shown: list[tuple[int, int]] = []  # cycle, and the command that the index belongs to
        self.outstanding = self.most_outstanding = self.conflicts = 0
        self.error_at: tuple[int, int] | None = None  # number of a burst, and of a beat in it
        self.fault: FaultSeen | None = None
        self.stopped = False
        self._address_was_valid = self._address_may_be_valid = False
        self._still = 0  # cycles without a transfer

    def step(self, moved: dict[str, int]) -> None:
        """React to the transfers of a cycle and drive the next one."""
        raise NotImplementedError

    def retired(self, moved: dict[str, int]) -> bool:
        """Tell whether a burst has ended."""
        raise NotImplementedError

    def compare(self, commands: list[Command], bursts: list[Burst], *, whole: bool) -> None:
        """Compare data with what the commands say; ``whole`` if they were not stopped."""
        raise NotImplementedError

    def completed_at(self, commands: list[Command]) -> list[int]:
        """Return the cycle in which the last effect of each command was seen."""
        raise NotImplementedError

    def run(self) -> None:
        """Watch what happens at an edge, and drive the next cycle."""
        self.now += 1
        moved = {}
        for name, (valid, ready, payload) in self._ports.items():
            if valid() and ready():
                moved[name] = payload()
                self.seen[name].append((self.now, moved[name]))
        self._check_status(moved)
        self._check_stop(moved)
        self.outstanding -= self.retired(moved)
        self.step(moved)

    def _check_status(self, moved: dict[str, int]) -> None:
        status = self._status
        state = EngineState(status["state"]())
        position = position_of(status["index"]())
        self.states[state, position] += 1
        if state != EngineState.IDLE:
            self.shown.append((self.now, position))
        idle = bool(status["idle"]() and not status["command__valid"]())
        assert (state == EngineState.IDLE) == idle

        valid, ready, _ = self._ports[self.port]
        refused = bool(valid() and not ready())
        assert self._conflict() == refused
        self.conflicts += refused

        # A raised address counts, accepted or not.
        valid = bool(self._ports[self.address][0]())
        raised = valid and not self._address_was_valid
        assert not (raised and self.stopped), "address raised after the stop"
        self._address_was_valid = valid and self.address not in moved
        self.outstanding += raised
        self.most_outstanding = max(self.most_outstanding, self.outstanding)
        assert status["quiet"]() == (self.outstanding == 0)

        # What moves inside soon comes out, or waits for something.
        self._still = 0 if moved else self._still + 1
        assert state != EngineState.TOKEN or not self.outstanding, "waits for bursts first"
        assert state != EngineState.BUSY or self._still < _STILL or self.stopped

    def _check_index(self, commands: list[Command], completed_at: list[int]) -> None:
        """Check that the index is that of the oldest command whose work or tokens are not done."""
        given_at = iter(self.times("engine__give"))
        done_at = [
            next(given_at) if command["signal"] else completed
            for command, completed in zip(commands, completed_at, strict=True)
        ]
        for now, position in self.shown:
            assert position == bisect_left(done_at, now), f"cycle {now}"

    def _check_stop(self, moved: dict[str, int]) -> None:
        fault = self._status["fault"]()
        if fault & 1 and self.fault is None:
            index = position_of(fault >> 5 & (1 << INDEX_BITS) - 1)
            self.fault = FaultSeen(Fault(fault >> 1 & 15), index, fault >> 5 + INDEX_BITS)
        self.stopped |= bool(fault & 1 or self._status["stop"]())
        if self.stopped:
            assert not moved.keys() & {"engine__take", "engine__give", self.port}

    def cycles_in(self, state: EngineState) -> int:
        """Return in how many cycles the engine showed a state."""
        return sum(count for (shown, _), count in self.states.items() if shown == state)

    def payloads(self, name: str) -> list[int]:
        """Return what was transferred on a stream."""
        return [payload for _, payload in self.seen[name]]

    def times(self, name: str) -> list[int]:
        """Return the cycles in which a stream had transfers."""
        return [now for now, _ in self.seen[name]]

    def bursts(self) -> list[tuple[int, int]]:
        """Return address and beats of the bursts that were issued."""
        return [
            (payload % (1 << ADDRESS_BITS), (payload >> ADDRESS_BITS) + 1)
            for payload in self.payloads(self.address)
        ]

    async def cycles(self, count: int) -> None:
        """Let some cycles pass."""
        for _ in range(count):
            await RisingEdge(self.dut.clk)

    async def completed(self) -> None:
        """Wait until every command is complete."""
        await self.commands.drained()
        await self.cycles(2)
        while not self.dut.engine__idle.value:
            await RisingEdge(self.dut.clk)
        await self.cycles(9)  # a surplus transfer would show up here

    def random_commands(self, count: int) -> list[Command]:
        """Return legal commands."""
        return [random_command(self.config, self.windows, self.opcode) for _ in range(count)]

    def bad_command(self, kind: str) -> Command:
        """Return an illegal command; ``longest``: of as many rows as the field can say."""
        if kind == "longest":
            most = next(f.range[-1] for f in COMMANDS[self.opcode].fields if f.name == "rows")
            row = random.randrange(self.config.ub_rows)
            return self.random_commands(1)[0].replace(row=row, rows=most)
        return bad_command(self.config, self.windows, self.opcode, kind)

    async def check(self, commands: list[Command]) -> None:
        """Run legal commands and check everything that they do."""
        self.commands.extend(pack_commands(commands))
        await self.completed()
        bursts, fault = trace(self.config, self.windows, commands)
        assert fault is None and self.fault is None
        assert self.bursts() == [(burst.address, burst.beats) for burst in bursts]
        self.compare(commands, bursts, whole=True)

        completed_at = self.completed_at(commands)
        self._check_index(commands, completed_at)
        assert self.payloads("engine__take") == [command["wait"] for command in commands]
        signaling = [i for i, command in enumerate(commands) if command["signal"]]
        assert self.payloads("engine__give") == [commands[i]["signal"] for i in signaling]
        for given_at, index in zip(self.times("engine__give"), signaling, strict=True):
            assert given_at > completed_at[index], "tokens given too early"

        assert self.most_outstanding <= self.config.dma_bursts
        assert self.states.total() == self.now

    async def check_late_tokens(self, count: int) -> None:
        """Run short commands whose tokens come at any time, also when the engine is empty."""
        self.clear()
        self.sinks["engine__take"].stall(0.95)
        await self.check([c.replace(lines=1, rows=1) for c in self.random_commands(count)])

    async def check_stop(self, commands: list[Command]) -> None:
        """Stop as the command processor does, wait for quiet, check what was done, reset.

        Then there are other windows.
        """
        dut = self.dut
        dut.engine__stop.value = 1
        self.sinks[self.port].stall(1)  # nothing is wanted from the buffer any more
        await self.cycles(2)
        while not dut.engine__quiet.value:
            await RisingEdge(dut.clk)
        await self.cycles(9)
        assert dut.engine__quiet.value and not self._ports[self.address][0]()
        assert self.fault is None or not dut.engine__idle.value, "command at fault is complete"

        bursts, _ = trace(self.config, self.windows, commands)
        issued = self.bursts()
        assert issued == [(burst.address, burst.beats) for burst in bursts][: len(issued)]
        self.compare(commands, bursts, whole=False)

        self.commands.cancel()
        dut.rst.value = 1
        await self.cycles(1)
        dut.rst.value = 0
        dut.engine__stop.value = 0  # not before the reset
        self.sinks[self.port].stall(self.stall)
        await self.cycles(1)
        self.draw_windows()
        self.clear()

    async def check_tokens_stop(self) -> None:
        """Stop while the tokens of a complete command wait: they are not given any more."""
        commands = [command.replace(signal=5) for command in self.random_commands(2)]
        self.sinks["engine__give"].stall(1)
        self.commands.extend(pack_commands(commands))
        while not self.dut.engine__give__valid.value:
            await RisingEdge(self.dut.clk)
        self.dut.engine__stop.value = 1
        self.sinks["engine__give"].stall(0)
        await self.cycles(9)
        assert not self.seen["engine__give"]
        position = position_of(int(self.dut.engine__index.value))
        assert position == 0, "command whose tokens are not given is complete"
        await self.check_stop(commands)

    async def faulted(self) -> FaultSeen:
        """Wait for a fault, and then a little, as the chip does until it stops the engine."""
        while self.fault is None:
            await RisingEdge(self.dut.clk)
        fault = self.fault
        await self.cycles(random.randrange(4))
        assert self.fault == fault
        return fault
