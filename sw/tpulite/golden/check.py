"""The static check: whether a program is legal, without any data."""

from functools import partial

import numpy as np

from tpulite.arch.isa import Opcode, illegal_combination
from tpulite.arch.memory import PAGE_BYTES, Window, WindowBinding
from tpulite.command_columns import field_problems
from tpulite.golden.effects.access import Footprint
from tpulite.golden.effects.extents import ExtentFinder
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.races.detector import RaceDetector, Violation
from tpulite.program import Program


def check(program: Program) -> list[Violation]:
    """Find everything that makes a program illegal, in program order.

    The same rules as in the golden machine: tokens order every conflicting access, program order is
    a legal serial execution, and nothing is read that is neither written by the program, resident,
    constant nor an input. Beyond that no command may fault, as far as that does not depend on data:
    the channel records and the weights in the constants are not looked at.

    Parameters
    ----------
    program : Program
        A compiled program.

    Returns
    -------
    list of Violation
        Empty if the program is legal.
    """
    windows, size = _layout(program.window_bytes)
    dram_written = np.zeros(size, dtype=bool)
    start = windows[Window.CONSTANTS].base
    dram_written[start : start + len(program.constants)] = True
    for spec in program.inputs:
        start = windows[spec.window].base + spec.offset
        dram_written[start : start + spec.nbytes(program.config)] = True
    buffer_written = np.zeros(program.config.ub_rows, dtype=bool)
    for first, stop in program.resident:
        buffer_written[first:stop] = True

    detector = RaceDetector(
        program.config, buffer_written=buffer_written, dram_written=dram_written
    )
    finder = ExtentFinder(program.config, windows)
    problems = field_problems(program.commands)
    ended = False
    for i, command in enumerate(program.commands):
        problem = problems.get(i) or illegal_combination(command, program.config)
        if problem is not None:
            detector.command(command, Footprint())
            detector.fault(f"FIELD: {problem}")
        elif (extents := finder.find(command)) is not None:
            detector.follow(command, extents, partial(footprint, command, program.config, windows))
        else:
            access = footprint(command, program.config, windows)
            detector.command(command, access)
            if access.fault is not None:
                detector.fault(f"{access.fault.code.name} at {access.fault.address}")
        if command.opcode == Opcode.END:
            detector.finish(commands_left=len(program.commands) - i - 1)
            ended = True
            break
    if not ended:
        detector.finish(commands_left=-1)
    return detector.violations


def _layout(window_bytes: tuple[int, ...]) -> tuple[list[WindowBinding], int]:
    """Bind the windows one after the other, with the permissions of their roles."""
    windows, base = [], 0
    for window, size in zip(Window, window_bytes, strict=True):
        windows.append(
            WindowBinding(
                base=base,
                size=size,
                read=window != Window.OUTPUT,
                write=window in (Window.OUTPUT, Window.SCRATCH),
            )
        )
        base += -(-size // PAGE_BYTES) * PAGE_BYTES
    return windows, base
