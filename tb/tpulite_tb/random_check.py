"""What a random program must do on the chip: all that the golden machine does, in all of DRAM."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.isa import Command, Engine
from tpulite.arch.memory import MemoryTiming
from tpulite.arch.registers import EngineState
from tpulite.golden.effects.footprint import decode_commands
from tpulite.golden.machine import Execution, Machine
from tpulite.golden.machine.dram import Dram
from tpulite.runtime.device import Device, Job, RunResult
from tpulite_tb.coverage.functional import Functional
from tpulite_tb.machines import FEW_LANES, FEW_ROWS, SMALL
from tpulite_tb.random_program import RandomProgram
from tpulite_verilated.trace import EngineTrace

__all__ = ["CONFIGS", "check", "check_traces", "memory_options", "sample"]

CONFIGS = {"4x4": SMALL, "8x8": FEW_LANES, "16x16": FEW_ROWS}
"""Machines that random programs run on."""


def memory_options(program: RandomProgram) -> dict[str, Any]:
    """Draw a memory that suits the program: fast or slow, steady or not."""
    rng = random.Random(program.seed)
    return {
        "dram_bytes": program.dram_bytes,
        "timing": MemoryTiming(rng.randint(2, 60), rng.randint(2, 20)),
        "stall": rng.choice([0.0, 0.1, 0.5]),
        "jitter": rng.choice([0, 0, 3, 40]),
        "read_errors": program.read_errors,
        "write_errors": program.write_errors,
    }


def check(program: RandomProgram, device: Device, no_errors: Callable[[], None]) -> None:
    """Run a program on the chip; if it faults, reset the chip and run the legal one after it."""
    legal, legal_dram = _run_golden(program, program.legal_dram, program.legal_job)
    if program.fault is not None:
        faulty, _ = _run_golden(program, program.dram, program.job, errors=True)
        assert faulty.fault is not None
        result, dram = _run_rtl(device, program.dram, program.job)
        report = result.fault
        assert report is not None, f"{program.fault} does not happen"
        golden = (faulty.fault.code, faulty.index, faulty.fault.address)
        assert (report.code, report.index, report.address) == golden
        assert (program.fault.code, program.fault.index, program.fault.address) == golden
        # Commands behind the one at fault may have been executed, or not.
        skipped, _ = _run_golden(program, program.dram, program.job, skip=faulty.index)
        _check_untouched(program.dram, dram, legal, faulty, skipped)
        no_errors()
        device.reset()
    result, dram = _run_rtl(device, program.legal_dram, program.legal_job)
    assert result.fault is None, result.fault
    _check_same(dram, legal_dram, legal, program.legal_commands)
    if sampler := Functional.wanted():
        sample(program, sampler)
        sampler.keep()


def check_traces(program: RandomProgram, traces: Mapping[Engine, EngineTrace]) -> None:
    """Check that the trace of the legal program has each engine's commands, and no others."""
    for engine, trace in traces.items():
        own = [i for i, command in enumerate(program.legal_commands) if command.engine == engine]
        assert trace.index.tolist() == own, f"{engine.name} worked on others"


def sample(program: RandomProgram, sampler: Functional) -> None:
    """Sample what was executed: the program, and what followed it if it stopped at a fault."""
    errors = {"read_errors": program.read_errors, "write_errors": program.write_errors}
    for job, image, faults in (
        (program.job, program.dram, errors),
        *([(program.legal_job, program.legal_dram, {})] if program.fault else []),
    ):
        dram = Dram(program.dram_bytes, **faults)
        dram.write(0, image)
        data = dram.read(job.program_address, COMMAND_BYTES * job.program_length)
        commands = decode_commands(data.tobytes())
        sampler.program(commands, program.config, job, dram)


def _run_golden(
    program: RandomProgram,
    image: NDArray[np.uint8],
    job: Job,
    *,
    errors: bool = False,
    skip: int | None = None,
) -> tuple[Execution, NDArray[np.uint8]]:
    """Run on the golden machine, without command ``skip``; return what it did and its DRAM."""
    dram = Dram(
        program.dram_bytes,
        read_errors=program.read_errors if errors else (),
        write_errors=program.write_errors if errors else (),
    )
    dram.write(0, image)
    data = dram.read(job.program_address, COMMAND_BYTES * job.program_length)
    commands = decode_commands(data.tobytes())
    if skip is not None:
        commands = [*commands[:skip], *commands[skip + 1 :]]
    done = Machine(program.config).run(
        commands,
        job.windows,
        dram,
        strict=skip is None,
        program_address=job.program_address,
    )
    return done, dram.data


def _run_rtl(
    device: Device, image: NDArray[np.uint8], job: Job
) -> tuple[RunResult, NDArray[np.uint8]]:
    """Run on the chip; return the result and DRAM. Every cycle of every engine is accounted for."""
    device.write(0, image)
    result = device.run(job)
    counters = result.counters
    for engine in Engine:
        states = {state: counters[f"{engine.name}_{state.name}".lower()] for state in EngineState}
        assert sum(states.values()) == counters["cycles"], f"{engine.name}: {states}"
    return result, device.read(0, image.size)


def _check_untouched(
    before: NDArray[np.uint8], after: NDArray[np.uint8], *executions: Execution
) -> None:
    """Check that every byte has its first value, or one that a STORE of the program gives it.

    How many of the commands around a fault are executed is a matter of timing.
    """
    legal = before == after
    for execution in executions:
        for line in execution.stores:
            place = slice(line.address, line.address + line.data.size)
            legal[place] |= after[place] == line.data
    wrong = np.flatnonzero(~legal)
    assert not wrong.size, f"After the fault {wrong.size} bytes differ, the first at {wrong[0]:#x}"


def _check_same(
    dram: NDArray[np.uint8],
    expected: NDArray[np.uint8],
    golden: Execution,
    commands: tuple[Command, ...],
) -> None:
    """Check all of DRAM; a difference names the command that should have written there."""
    wrong = np.flatnonzero(dram != expected)
    if wrong.size:
        first = int(wrong[0])
        writers = [
            line.command
            for line in golden.stores
            if line.address <= first < line.address + line.data.size
        ]
        writer = f"command {writers[-1]}, {commands[writers[-1]]}" if writers else "no command"
        raise AssertionError(
            f"{wrong.size} bytes of DRAM differ, the first at {first:#x}: {dram[first]}, "
            f"expected {expected[first]} of {writer}"
        )
