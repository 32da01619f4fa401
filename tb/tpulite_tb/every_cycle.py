"""Short programs that are interrupted in each of their cycles; what runs after that is right.

In a cycle the host says STOP, the chip is reset, or reads or writes begin to fail. After STOP and
after a fault the host does a soft reset. Then the whole program must run, and all of DRAM be right.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.memory import MemoryTiming
from tpulite.arch.registers import Fault
from tpulite.golden.machine import Execution, Machine
from tpulite.golden.machine.dram import Dram
from tpulite_tb.machines import FEW_ROWS, SMALL
from tpulite_tb.random_program import RandomProgram
from tpulite_tb.resets import stopped
from tpulite_tb.starts import outcome, start
from tpulite_verilated.rtl_device import RtlDevice

__all__ = ["MACHINES", "PROGRAMS", "interrupted", "place_of", "places"]

MACHINES = {"4x4": SMALL, "16x16": FEW_ROWS}

PROGRAMS = range(12)
"""Seeds of the programs, which use all engines; every other one has a memory that stalls."""

_TIMING = MemoryTiming(12, 6)
_STALL, _JITTER = 0.3, 8

_FAULTS = {
    "read error": (Fault.READ, Fault.FETCH),
    "write error": (Fault.WRITE,),
}


@dataclass(frozen=True, eq=False)
class _Case:
    """A program that has run once, on the golden machine and on the chip."""

    program: RandomProgram
    golden: Execution
    after: NDArray[np.uint8]  #: DRAM behind it.
    cycles: int


def places(machine: str) -> int:
    """Return how many cycles all programs take together."""
    return sum(_case(machine, program).cycles for program in PROGRAMS)


def place_of(machine: str, seed: int) -> tuple[int, int]:
    """Return the program and the cycle of a seed: seeds go through all cycles of all programs."""
    rest = seed % places(machine)
    for program in PROGRAMS:
        cycles = _case(machine, program).cycles
        if rest < cycles:
            return program, rest
        rest -= cycles
    raise AssertionError


def interrupted(machine: str, seed: int) -> dict[str, int]:
    """Interrupt a program in a cycle, in each way; return what happened, counted.

    Parameters
    ----------
    machine : str
        A name of :data:`MACHINES`.
    seed : int
        Which cycle of which program, see :func:`place_of`.
    """
    number, cycle = place_of(machine, seed)
    case, device = _case(machine, number), _device(machine, number)
    counts: Counter[str] = Counter(cycles=1)
    for way in ("stop", "reset", *_FAULTS):
        try:
            counts[_interrupt(case, device, cycle, way)] += 1
            _check_untouched(case, device)
            _run_whole(case, device)
        except Exception as error:
            error.add_note(f"{way} {cycle} cycles after START of program {number} on {machine}")
            raise
    return dict(counts)


def _interrupt(case: _Case, device: RtlDevice, cycle: int, way: str) -> str:
    """Run a program up to a cycle and interrupt it; return what came of it."""
    device.write(0, case.program.dram)
    start(device, case.program.job)
    device.step(cycle)
    if way == "reset":
        device.full_reset()
        return way
    if way == "stop":
        return way if stopped(device) else "stop after the last"
    everywhere = (range(case.program.dram_bytes),)
    device.set_errors(**{way.split()[0]: everywhere})
    device.wait()
    device.set_errors()
    fault = outcome(device).fault
    if fault is None:
        return f"{way} after the last"
    assert fault.code in _FAULTS[way], fault
    device.reset()
    return way


def _check_untouched(case: _Case, device: RtlDevice) -> None:
    """Check that each byte of DRAM is as before, or as a STORE of the program writes it."""
    before, found = case.program.dram, device.read(0, case.after.size)
    legal = before == found
    for line in case.golden.stores:
        place = slice(line.address, line.address + line.data.size)
        legal[place] |= found[place] == line.data
    assert legal.all(), f"{np.count_nonzero(~legal)} bytes changed that no STORE writes so"


def _run_whole(case: _Case, device: RtlDevice) -> int:
    """Run a program to its end and check all of DRAM; return its cycles."""
    device.write(0, case.program.dram)
    result = device.run(case.program.job)
    assert result.fault is None, result.fault
    wrong = np.flatnonzero(device.read(0, case.after.size) != case.after)
    assert not wrong.size, f"{wrong.size} bytes of DRAM are wrong, the first at {wrong[0]:#x}"
    return result.counters["cycles"]


@cache
def _program(config: Config, number: int) -> RandomProgram:
    return RandomProgram(number, config, fault=0.0)


@cache
def _case(machine: str, number: int) -> _Case:
    program = _program(MACHINES[machine], number)
    dram = Dram(program.dram_bytes)
    dram.write(0, program.dram)
    golden = Machine(program.config).run(
        program.legal_commands,
        program.job.windows,
        dram,
        program_address=program.program_address,
    )
    case = _Case(program, golden, dram.data.copy(), 0)
    cycles = _run_whole(case, _device(machine, number))
    return _Case(program, golden, case.after, cycles)


@cache
def _device(machine: str, number: int) -> RtlDevice:
    stalls = number % 2
    return RtlDevice(
        MACHINES[machine],
        dram_bytes=_program(MACHINES[machine], number).dram_bytes,
        timing=_TIMING,
        stall=_STALL * stalls,
        jitter=_JITTER * stalls,
        seed=number,
    )
