"""What the cycle model predicts, command by command and engine by engine."""

from dataclasses import dataclass

import numpy as np

from tpulite.arch.isa import Command, Engine, disassemble
from tpulite.arch.registers import EngineState
from tpulite.golden.timing.record import Record


@dataclass(frozen=True, slots=True)
class CommandTimes:
    """When a command runs, in cycles from the start, and what its engine does meanwhile.

    The cycles from ``first`` to ``stop`` count for the command, as in the trace of the chip; they
    are the sum of ``busy``, ``token``, ``buffer`` and ``axi``. Those of an engine's commands do
    not overlap.
    """

    engine: Engine | None  #: Who executes it; None for END.
    dispatch: int  #: Cycle in which it enters its queue.
    start: int  #: Cycle in which its tokens are taken.
    #: First cycle, and last cycle + 1, that its engine counts for it.
    first: int
    stop: int
    #: Cycles in which the engine works, waits for tokens, is held up by the unified buffer, or by
    #: DRAM.
    busy: int
    token: int
    buffer: int
    axi: int
    giver: Engine | None  #: Who gave the last token that it waited for.

    @classmethod
    def of(cls, record: Record) -> "CommandTimes":
        """Freeze what the model has noted."""
        cycles = record.stop - record.first
        return cls(
            Engine(record.engine) if record.engine >= 0 else None,
            record.dispatch,
            record.start,
            record.first,
            record.stop,
            cycles - record.token - record.buffer - record.axi,
            record.token,
            record.buffer,
            record.axi,
            Engine(record.giver) if record.giver >= 0 else None,
        )


@dataclass(frozen=True, eq=False)
class EngineTimes:
    """What the model predicts of one engine, in the form of the chip's trace."""

    index: np.ndarray  #: Indices of its commands.
    #: First cycle, and last cycle + 1, that counts for each.
    start: np.ndarray
    stop: np.ndarray
    cycles: np.ndarray  #: Cycles in each state.


@dataclass(frozen=True)
class Timeline:
    """What the cycle model predicts of a program."""

    commands: tuple[Command, ...]  #: The program.
    cycles: int  #: Cycles from start to interrupt.
    times: tuple[CommandTimes, ...]  #: When each command runs.

    def engine(self, engine: Engine) -> dict[EngineState, int]:
        """Return the cycles of an engine in each state; their sum is :attr:`cycles`."""
        mine = [times for times in self.times if times.engine == engine]
        states = {
            EngineState.BUSY: sum(times.busy for times in mine),
            EngineState.TOKEN: sum(times.token for times in mine),
            EngineState.BUFFER: sum(times.buffer for times in mine),
            EngineState.AXI: sum(times.axi for times in mine),
        }
        return {EngineState.IDLE: self.cycles - sum(states.values()), **states}

    def traces(self) -> dict[Engine, EngineTimes]:
        """Return what each engine does, as the traces of a device that has a clock."""
        numbers: dict[Engine, list[tuple[int, ...]]] = {engine: [] for engine in Engine}
        for index, x in enumerate(self.times):
            if x.engine is not None:
                spent = 0, x.busy, x.token, x.buffer, x.axi
                numbers[x.engine].append((index, x.first, x.stop, *spent))
        traces = {}
        for engine, rows in numbers.items():
            each = np.array(rows, np.int64).reshape(len(rows), 3 + len(EngineState))
            traces[engine] = EngineTimes(each[:, 0], each[:, 1], each[:, 2], each[:, 3:])
        return traces

    def dump(self) -> str:
        """Return a table with a line a command, then the engines' cycles in each state."""
        lines = [_line("command", *_COLUMNS)]
        for index, (command, times) in enumerate(zip(self.commands, self.times, strict=True)):
            if times.engine is None:
                lines.append(_line(index, times.dispatch, *[""] * 7, disassemble(command)))
                continue
            numbers = (getattr(times, name) for name in _COLUMNS[:-1])
            lines.append(_line(index, *numbers, disassemble(command)))
        lines.append(f"{self.cycles:,} cycles")
        for engine in Engine:
            states = self.engine(engine)
            words = [f"{state.name.lower()} {cycles:,}" for state, cycles in states.items()]
            lines.append(f"{engine.name:<5} {', '.join(words)}")
        return "\n".join(lines)


_COLUMNS = ("dispatch", "start", "first", "stop", "busy", "token", "buffer", "axi", "fields")


def _line(index: object, *columns: object) -> str:
    *numbers, text = columns
    return f"{index!s:>7}" + "".join(f"{number!s:>9}" for number in numbers) + f"  {text}"
