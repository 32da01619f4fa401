"""END behind any command: its effects are there when the interrupt comes, for the next program.

Compiled and random programs end with a STORE, so that END never had anything else to wait for.
"""

from dataclasses import replace
from itertools import count, islice

import numpy as np
import pytest

from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.golden.effects.footprint import decode_commands
from tpulite.golden.machine import Machine
from tpulite.golden.machine.dram import Dram
from tpulite_tb.coverage.functional import Functional
from tpulite_tb.machines import SMALL
from tpulite_tb.random_check import memory_options
from tpulite_tb.random_program import RandomProgram
from tpulite_verilated.rtl_device import RtlDevice

PROGRAMS = 20
END = Command.make(Opcode.END)
SHOW = (Command.make(Opcode.STORE, window=Window.OUTPUT, lines=1, rows=SMALL.ub_rows), END)


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.CONV, Opcode.VECTOR])
def test_effects_of_the_last_command_are_there_at_the_interrupt(opcode: Opcode) -> None:
    """Cut random programs behind a command of each kind; a second program stores the buffer."""
    sampler = Functional.wanted()
    programs = (RandomProgram(seed, SMALL, fault=0.0) for seed in count())
    with_it = (x for x in programs if opcode in {each.opcode for each in x.legal_commands})
    for program in islice(with_it, PROGRAMS):
        drawn = program.legal_commands
        last = max(i for i, command in enumerate(drawn) if command.opcode == opcode)
        device, golden = RtlDevice(SMALL, **memory_options(program)), Machine(SMALL)
        dram = Dram(program.dram_bytes)
        for memory in (dram, device):
            memory.write(0, program.legal_dram)
        for commands in ((*drawn[: last + 1], END), SHOW):
            job = replace(program.legal_job, program_length=len(commands))
            words = b"".join(command.encode() for command in commands)
            for memory in (dram, device):
                memory.write(job.program_address, np.frombuffer(words, dtype=np.uint8))
            if sampler:
                copy = Dram(program.dram_bytes)
                copy.write(0, dram.data)
                sampler.program(commands, SMALL, job, copy)
                sampler.keep()
            stream = decode_commands(dram.read(job.program_address, len(words)).tobytes())
            done = golden.run(stream, job.windows, dram, strict=False)
            assert done.fault is None
            assert device.run(job).fault is None
        assert np.array_equal(device.read(0, program.dram_bytes), dram.data), f"seed {program.seed}"
