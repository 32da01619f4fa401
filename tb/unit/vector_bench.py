"""A vector engine at a unified buffer of plain Python that refuses when it likes."""

import random
from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, NullTrigger, RisingEdge
from command_index import index_of, position_of
from vector_commands import draw_command, draw_parameters
from vector_model import Outcome, execute

from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, Command, Opcode, VectorOp
from tpulite.arch.registers import EngineState
from tpulite.arch.timing import row_read
from tpulite_rtl.lib.interfaces import FAULT, write_layout
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

__all__ = ["ENDING", "VectorBench"]

ENDING = 1200
"""Cycles in which all rows that were read become norms, which take longest."""

_PORTS = ("read_a__request", "read_b__request", "write__request")


class VectorBench:
    """The engine, its buffer, and what must become of it.

    Parameters
    ----------
    dut
        The engine.
    config : Config
        Its machine. The first quarter of its rows holds inputs only, the second one outputs, and
        the others the parameters.
    stall : float
        Fraction of the cycles in which each stream refuses.

    Attributes
    ----------
    buffer, expected : list of bytes
        The unified buffer, and what the commands that were sent make of it.
    events : list of (str, int)
        What happened: ``take`` and ``give`` with a mask; ``a``, ``b`` and ``write`` with a row.
    cycles : dict
        The cycle of each event, by its name.
    states : dict of EngineState
        What the engine showed in each cycle.
    """

    def __init__(self, dut, config: Config, *, stall: float = 0.0) -> None:
        self.dut = dut
        self.config = config
        self.buffer = [_draw_row(config.row_bytes) for _ in range(config.ub_rows)]
        self.expected = list(self.buffer)
        self.commands = StreamDriver(dut, "engine__command")
        self.takes = StreamSink(dut, "engine__take", stall=stall)
        self.gives = StreamSink(dut, "engine__give", stall=stall)
        self.reads = [StreamSink(dut, f"read_{name}__request", stall=stall) for name in "ab"]
        self.writes = StreamSink(dut, "write__request", stall=stall)
        self._streams = [
            (name, getattr(dut, f"{name}__valid"), getattr(dut, f"{name}__ready"))
            for name in (*_PORTS, "engine__take", "engine__give")
        ]
        self.events: list[tuple[str, int]] = []
        names = ("take", "a", "b", "write", "give")
        self.cycles: dict[str, list[int]] = {name: [] for name in names}
        self.states: dict[int, EngineState] = {}
        self.sent = 0
        self._cycle = 0
        self._given = 0
        self._quarter = config.ub_rows // 4
        self._parameters = 2 * self._quarter
        self._answers: dict[str, bytes] = {}
        for name in ("take", "give"):
            StreamMonitor(dut, f"engine__{name}", callback=self._note(name))
        for name in "ab":
            StreamMonitor(dut, f"read_{name}__request", callback=self._read(name))
        StreamMonitor(dut, "write__request", callback=self._write)
        dut.engine__stop.value = 0
        dut.drains.value = 0
        cocotb.start_soon(self._respond())

    def place(self, command: Command, *, in_place: bool = False, **record: int) -> Command:
        """Draw places for a command's operands and output, and put its parameters there."""
        operation = VectorOp(command["operation"])
        vectors = command["window_rows"] * command["window_columns"]
        rows = draw_parameters(operation, self.config, vectors=vectors, records=record)
        row, self._parameters = self._parameters, self._parameters + len(rows)
        for memory in (self.buffer, self.expected):
            memory[row : row + len(rows)] = rows
        starts = {name: random.randrange(self._quarter - 512) for name in ("a_row", "b_row")}
        starts["out_row"] = random.randrange(self._quarter, 2 * self._quarter - 512)
        if in_place:
            starts["a_row"] = starts["out_row"]
        return command.replace(**starts, param_row=row)

    def draw(self, operation: VectorOp, *, in_place: bool = False, **fields: int) -> Command:
        """Draw a command and its places; see :func:`draw_command`."""
        command = draw_command(operation, self.config, **fields)
        if in_place:
            command = command.replace(
                a_pitch=command["out_pitch"],
                a_step=command["out_step"],
                window_rows=1,
                window_columns=1,
            )
        return self.place(command, in_place=in_place)

    def send(self, command: Command, *, starts: bool = True) -> Outcome:
        """Queue a command and expect what it does until its fault, if it starts at all."""
        word = int.from_bytes(command.encode(), "little")
        self.commands.append(word | index_of(self.sent) << COMMANDS[Opcode.VECTOR].width)
        self.sent += 1
        outcome = execute(command, self.expected, self.config)
        for row, data in outcome.writes if starts else []:
            self.expected[row] = data
        return outcome

    async def finished(self) -> None:
        """Wait until every command has given its tokens, and for surplus events."""
        while len(self.cycles["give"]) < self.sent:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 30)

    async def failed(self) -> None:
        """Wait for a fault, and until everything that was under way has ended."""
        while self.fault is None:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, ENDING)

    @property
    def fault(self) -> tuple[int, int, int] | None:
        """The fault that the engine shows: code, position of its command and address."""
        fault = FAULT.from_bits(self.dut.engine__fault.value.to_unsigned())
        return (fault.code, position_of(fault.index), fault.address) if fault.valid else None

    def _check_shown(self) -> None:
        """Check what the engine shows in this cycle: its oldest command, conflict and state."""
        dut = self.dut
        if dut.rst.value:
            return
        idle, waits = bool(dut.engine__idle.value), bool(dut.engine__command__valid.value)
        if waits or not idle:
            shown = position_of(dut.engine__index.value.to_unsigned())
            assert shown == self._given, f"cycle {self._cycle}: command {shown}, not {self._given}"
        offers = [(name, bool(ready.value)) for name, valid, ready in self._streams if valid.value]
        refused = any(not accepted and name in _PORTS for name, accepted in offers)
        assert dut.conflict.value == refused, f"cycle {self._cycle}"
        if any(accepted for _, accepted in offers):
            possible = {EngineState.BUSY}
        elif idle:
            possible = {EngineState.TOKEN if waits else EngineState.IDLE}
        else:
            possible = {EngineState.BUSY, EngineState.BUFFER if refused else EngineState.BUSY}
        self.states[self._cycle] = state = EngineState(int(dut.engine__state.value))
        assert state in possible, f"cycle {self._cycle}: {state.name}, offers {offers}"

    def _note(self, name: str):
        def note(value: int) -> None:
            self.events.append((name, value))
            self.cycles[name].append(self._cycle)

        return note

    def _read(self, name: str):
        note = self._note(name)

        def read(row: int) -> None:
            self._answers[name] = self.buffer[row]
            note(row)

        return read

    def _write(self, payload: int) -> None:
        request = write_layout(self.config).from_bits(payload)
        self.buffer[request.row] = request.data.to_bytes(self.config.row_bytes, "little")
        self._note("write")(request.row)

    async def _respond(self) -> None:
        """Show each row for exactly the cycle that the port promises, garbage otherwise."""
        waiting: deque[dict[str, bytes]] = deque([{}] * (row_read(self.config) - 1))
        while True:
            await RisingEdge(self.dut.clk)
            self._cycle += 1
            self._check_shown()
            for name in "ab":
                row = waiting[0].get(name) or random.randbytes(self.config.row_bytes)
                response = getattr(self.dut, f"read_{name}__response__payload")
                response.value = int.from_bytes(row, "little")
            # The monitors of this edge may run before or after: give them their turn.
            await NullTrigger()
            waiting.popleft()
            waiting.append(self._answers)
            self._answers = {}
            self._given = len(self.cycles["give"])


def _draw_row(size: int) -> bytes:
    """Draw a row of any bytes, or of some that are near each other; or a norm, with a shift."""
    kind = random.random()
    if kind < 0.3:
        least = random.choice([0x80, 0x7C, random.getrandbits(8)])
        above = random.choice([range(4), [0] * 7 + [1]])
        return bytes((least + random.choice(above)) % 256 for _ in range(size))
    row = bytearray(random.randbytes(size))
    if kind < 0.5:
        row[1] = random.randint(-34, 4) % 256
    return bytes(row)
