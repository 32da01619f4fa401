"""A vector engine at a unified buffer of plain Python that refuses when it likes."""

import random
from collections import ChainMap, deque

from cocotb.triggers import ClockCycles, RisingEdge
from command_index import index_of, position_of
from vector_commands import draw_command, draw_parameters
from vector_model import Memory, Outcome, execute

from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, Command, Opcode, VectorOp
from tpulite.arch.registers import EngineState
from tpulite.arch.timing import row_read
from tpulite_rtl.lib.interfaces import FAULT, write_layout
from tpulite_tb.edges import at_each_edge, reader
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

__all__ = ["VectorBench"]

_ENDING = 1200
"""Cycles in which all rows that were read become norms, which take longest."""

_SURPLUS = 150
"""Cycles in which rows of any other operation are written, whatever refuses."""

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
    buffer, expected : Memory
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
        drawn = _Rows(config.row_bytes)
        self.buffer: Memory = ChainMap({}, drawn)
        self.expected: Memory = ChainMap({}, drawn)
        self.commands = StreamDriver(dut, "engine__command")
        self.takes = StreamSink(dut, "engine__take", stall=stall)
        self.gives = StreamSink(dut, "engine__give", stall=stall)
        self.reads = [StreamSink(dut, f"read_{name}__request", stall=stall) for name in "ab"]
        self.writes = StreamSink(dut, "write__request", stall=stall)
        self._streams = [
            (name, reader(getattr(dut, f"{name}__valid")), reader(getattr(dut, f"{name}__ready")))
            for name in (*_PORTS, "engine__take", "engine__give")
        ]
        self._rst, self._conflict = reader(dut.rst), reader(dut.conflict)
        self._idle, self._waits = reader(dut.engine__idle), reader(dut.engine__command__valid)
        self._index, self._state = reader(dut.engine__index), reader(dut.engine__state)
        self._responses = {name: getattr(dut, f"read_{name}__response__payload") for name in "ab"}
        self.events: list[tuple[str, int]] = []
        names = ("take", "a", "b", "write", "give")
        self.cycles: dict[str, list[int]] = {name: [] for name in names}
        self.states: dict[int, EngineState] = {}
        self.sent = 0
        self._due = 0
        self._surplus = _SURPLUS
        self._cycle = 0
        self._given = 0
        self._quarter = config.ub_rows // 4
        self._parameters = 2 * self._quarter
        self._answers: dict[str, bytes] = {}
        self._waiting: deque[dict[str, bytes]] = deque([{}] * (row_read(config) - 1))
        for name in ("take", "give"):
            StreamMonitor(dut, f"engine__{name}", callback=self._note(name))
        for name in "ab":
            StreamMonitor(dut, f"read_{name}__request", callback=self._read(name))
        StreamMonitor(dut, "write__request", callback=self._write)
        dut.engine__stop.value = 0
        dut.drains.value = 0
        at_each_edge(dut.clk, self._respond)  # after the monitors

    def place(self, command: Command, *, in_place: bool = False, **record: int) -> Command:
        """Draw places for a command's operands and output, and put its parameters there."""
        operation = VectorOp(command["operation"])
        vectors = command["window_rows"] * command["window_columns"]
        rows = draw_parameters(operation, self.config, vectors=vectors, records=record)
        row, self._parameters = self._parameters, self._parameters + len(rows)
        for memory in (self.buffer, self.expected):
            memory.update(enumerate(rows, row))
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
            self._due += 1
        if command["operation"] == VectorOp.NORM:
            self._surplus = _ENDING
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
        await self.ended(self._due)

    async def ended(self, writes: int) -> None:
        """Wait for so many writes, if they come, and then for surplus events."""
        for _ in range(_ENDING):
            if len(self.cycles["write"]) >= writes:
                break
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, self._surplus)

    @property
    def fault(self) -> tuple[int, int, int] | None:
        """The fault that the engine shows: code, position of its command and address."""
        fault = FAULT.from_bits(self.dut.engine__fault.value.to_unsigned())
        return (fault.code, position_of(fault.index), fault.address) if fault.valid else None

    def _check_shown(self) -> None:
        """Check what the engine shows in this cycle: its oldest command, conflict and state."""
        if self._rst():
            return
        idle, waits = self._idle(), self._waits()
        if waits or not idle:
            shown = position_of(self._index())
            assert shown == self._given, f"cycle {self._cycle}: command {shown}, not {self._given}"
        offers = [(name, ready()) for name, valid, ready in self._streams if valid()]
        refused = any(not accepted and name in _PORTS for name, accepted in offers)
        assert self._conflict() == refused, f"cycle {self._cycle}"
        if any(accepted for _, accepted in offers):
            possible = {EngineState.BUSY}
        elif idle:
            possible = {EngineState.TOKEN if waits else EngineState.IDLE}
        else:
            possible = {EngineState.BUSY, EngineState.BUFFER if refused else EngineState.BUSY}
        self.states[self._cycle] = state = EngineState(self._state())
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

    def _respond(self) -> None:
        """Show each row for exactly the cycle that the port promises, garbage otherwise."""
        self._cycle += 1
        self._check_shown()
        rows = self._waiting.popleft()
        for name, response in self._responses.items():
            row = rows.get(name) or random.randbytes(self.config.row_bytes)
            response.value = int.from_bytes(row, "little")
        self._waiting.append(self._answers)
        self._answers = {}
        self._given = len(self.cycles["give"])


class _Rows(dict[int, bytes]):
    """What a buffer holds at first: each row is drawn when it is looked at."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __missing__(self, row: int) -> bytes:
        self[row] = drawn = _draw_row(self._size)
        return drawn


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
