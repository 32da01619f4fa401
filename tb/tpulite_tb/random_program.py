"""Constrained-random programs, from a generator that shares nothing with the compiler."""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window, WindowBinding
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Fault
from tpulite.runtime.device import Job
from tpulite_tb.random_commands import CommandDrawer
from tpulite_tb.random_compute_faults import (
    draw_bad_record,
    draw_conv_out_of_buffer,
    draw_vector_out_of_buffer,
)
from tpulite_tb.random_faults import (
    BadCommands,
    ExpectedFault,
    draw_bad_transfer,
    draw_bad_word,
    draw_transfer_out_of_buffer,
    first_burst,
)
from tpulite_tb.random_records import draw_blocks
from tpulite_tb.random_state import State
from tpulite_tb.random_tokens import add_tokens
from tpulite_tb.random_transfers import draw_dump

__all__ = ["LONGEST", "RandomProgram"]

LONGEST = 40
"""Commands of a program before its last STOREs, at most."""

_WATCHDOG = 2_000
"""Cycles without progress, which no legal program comes near: slow memories take most of them."""


class RandomProgram:
    """A random program with everything that running it needs, the same for the same seed.

    Parameters
    ----------
    seed : int
        What all choices depend on.
    config : Config
        The machine.
    fault : float
        Probability that the program stops at a fault.
    memory_errors : bool
        Whether the fault may be an AXI error, for devices that can provoke one.

    Attributes
    ----------
    commands : tuple of Command or bytes
        The stream; a word that does not decode is given as bytes.
    legal_commands : tuple of Command
        The same without what causes the fault: a program to run after the reset.
    windows : tuple of WindowBinding
        DRAM windows, apart from each other and from the program.
    dram_bytes, program_address : int
        Size of DRAM and place of the program in it.
    fault : ExpectedFault, optional
        The report that the program must end with, or None.
    read_errors, write_errors : tuple of range
        Addresses that must answer with AXI errors.
    coverage : frozenset of (opcode, title, value, fault)
        What the program exercises.
    """

    def __init__(
        self, seed: int, config: Config, *, fault: float = 0.3, memory_errors: bool = True
    ) -> None:
        self.seed = seed
        self.config = config
        self.fault: ExpectedFault | None = None
        self.read_errors: tuple[range, ...] = ()
        self.write_errors: tuple[range, ...] = ()
        rng = random.Random(seed)
        self.program_address, self.windows, self.dram_bytes = _lay_out_dram(rng, config)
        self._background = np.random.default_rng(seed).integers(
            0, 256, self.dram_bytes, dtype=np.uint8
        )
        constants, blocks = draw_blocks(rng, config)
        self._write(self.windows[Window.CONSTANTS].base, constants)
        self._draw(CommandDrawer(rng, config, self.windows, blocks), fault, memory_errors)

    def _draw(self, drawer: CommandDrawer, fault: float, memory_errors: bool) -> None:
        """Draw the commands, and the fault if there is one."""
        rng = drawer.state.rng
        length = rng.randint(6, LONGEST - 4)
        position = rng.randrange(4, length) if rng.random() < fault else length
        drawn = [drawer.fill() for _ in range(3)] + [drawer.draw() for _ in range(position - 3)]
        code, bad = Fault.NONE, None
        if position < length:
            code = rng.choice(self._fault_codes(memory_errors))
            if code in (Fault.BUFFER, Fault.WINDOW, Fault.RECORD):
                bad = self._draw_bad_commands(code, drawer.state)
                code = code if bad else Fault.FIELD
        later = [drawer.draw() for _ in range(length - position)] + draw_dump(drawer.state)

        end = Command.make(Opcode.END)
        self.legal_commands: tuple[Command, ...] = (*add_tokens(rng, drawn + later), end)
        self.commands: tuple[Command | bytes, ...] = self.legal_commands
        coverage = {(x.command.opcode.name, *tag, "-") for x in drawn + later for tag in x.tags}
        if bad is not None:
            self.commands = (*add_tokens(rng, drawn + bad.commands + later), end)
            opcode = bad.commands[-1].command.opcode.name
            coverage.add((opcode, "-", "-", f"{code.name} {bad.case}"))
            self.fault = ExpectedFault(code, position + len(bad.commands) - 1, bad.address)
        elif code != Fault.NONE:
            self.fault = self._damage(rng, code, position)
            coverage.add(("-", "-", "-", self.fault.code.name))
        self.coverage = frozenset(coverage)

    @property
    def job(self) -> Job:
        """The program as a device runs it."""
        return self._job(len(self.commands))

    @property
    def legal_job(self) -> Job:
        """The legal program as a device runs it."""
        return self._job(len(self.legal_commands))

    @property
    def dram(self) -> NDArray[np.uint8]:
        """The whole DRAM at the start, with the program in it."""
        return self._image(self.commands)

    @property
    def legal_dram(self) -> NDArray[np.uint8]:
        """The whole DRAM at the start, with the legal program in it."""
        return self._image(self.legal_commands)

    def _job(self, length: int) -> Job:
        return Job(self.program_address, length, self.windows, watchdog=_WATCHDOG)

    def _image(self, commands: Sequence[Command | bytes]) -> NDArray[np.uint8]:
        image = self._background.copy()
        data = b"".join(x if isinstance(x, bytes) else x.encode() for x in commands)
        start = self.program_address
        image[start : start + len(data)] = np.frombuffer(data, dtype=np.uint8)
        return image

    def _write(self, address: int, data: bytes) -> None:
        self._background[address : address + len(data)] = np.frombuffer(data, dtype=np.uint8)

    def _fault_codes(self, memory_errors: bool) -> list[Fault]:
        codes = [Fault.BUFFER] * 5 + [Fault.WINDOW] * 3 + [Fault.FIELD] * 2 + [Fault.OVERRUN]
        if len(self.config.roundings) < len(Rounding):
            codes += [Fault.RECORD] * 3
        if memory_errors:
            codes += [Fault.READ, Fault.WRITE, Fault.FETCH]
        return codes

    def _draw_bad_commands(self, code: Fault, state: State) -> BadCommands | None:
        """Draw commands that fault; None if the buffer holds nothing to draw them from."""
        for _ in range(20):
            if code == Fault.BUFFER:
                kinds = [draw_transfer_out_of_buffer, draw_conv_out_of_buffer]
                kinds += [draw_conv_out_of_buffer, draw_vector_out_of_buffer]
                bad = state.rng.choice(kinds)(state)
            elif code == Fault.WINDOW:
                bad = draw_bad_transfer(state, self.windows)
            else:
                bad = draw_bad_record(state)
            if bad is not None:
                return bad
        return None

    def _damage(self, rng: random.Random, code: Fault, position: int) -> ExpectedFault:
        """Make the legal program, or the memory under it, faulty."""
        legal = self.legal_commands
        address = self.program_address + COMMAND_BYTES * position
        if code == Fault.FIELD:
            word, code = draw_bad_word(rng, legal[position], self.config)
            self.commands = (*legal[:position], word, *legal[position:])
            return ExpectedFault(code, position, address)
        if code == Fault.OVERRUN:
            self.commands = legal[:-1]
            address = self.program_address + COMMAND_BYTES * len(self.commands)
            return ExpectedFault(code, len(self.commands), address)
        opcode = Opcode.LOAD if code == Fault.READ else Opcode.STORE
        chosen = [command for command in legal if command.opcode == opcode]
        if code == Fault.FETCH or not chosen:
            first = address + BEAT_BYTES * rng.randrange(COMMAND_BYTES // BEAT_BYTES)
            self.read_errors = (range(first, first + BEAT_BYTES),)
            return ExpectedFault(Fault.FETCH, position, address)
        command = rng.choice(chosen)
        beats = -(-command["rows"] * self.config.row_bytes // BEAT_BYTES)
        first = self.windows[command["window"]].base + command["offset"]
        first += rng.randrange(command["lines"]) * command["stride"]
        first += rng.randrange(beats) * BEAT_BYTES
        error = (range(first, first + BEAT_BYTES),)
        if code == Fault.READ:
            self.read_errors = error
        else:
            self.write_errors = error
        index, burst = first_burst(legal, opcode, first, self.config, self.windows)
        return ExpectedFault(code, index, burst)


def _lay_out_dram(rng: random.Random, config: Config) -> tuple[int, tuple[WindowBinding, ...], int]:
    """Place the windows and the program in random order, with gaps; few of them start at a page."""
    sizes = {
        Window.CONSTANTS: max(8192, 512 * config.row_bytes) * (1 + config.has_softmax),
        Window.INPUT: max(4096, config.ub_bytes // 2),
        Window.OUTPUT: max(6144, 3 * config.ub_bytes),
        Window.SCRATCH: max(4096, config.row_bytes * 512),
    }
    regions: list[tuple[Window | None, int]] = [
        *sizes.items(),
        (None, (LONGEST + 5) * COMMAND_BYTES),
    ]
    rng.shuffle(regions)
    windows: dict[Window, WindowBinding] = {}
    address = program = 0
    for window, size in regions:
        address += BEAT_BYTES * rng.randint(1, 64)
        if window is None:
            program = address
        else:
            windows[window] = WindowBinding(
                base=address,
                size=size,
                read=window != Window.OUTPUT,
                write=window in (Window.OUTPUT, Window.SCRATCH),
            )
        address += size
    end = address + BEAT_BYTES * rng.randint(1, 64)
    return program, tuple(windows[window] for window in Window), end
