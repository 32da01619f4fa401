"""Registers of the whole chip: all bits reach what they are for, and no program is disturbed."""

import random

from tpulite.arch.registers import REGISTERS, Access
from tpulite_tb.machines import SMALL
from tpulite_tb.random_check import check, memory_options
from tpulite_tb.random_program import RandomProgram
from tpulite_verilated.rtl_device import RtlDevice

WORD = 0xFFFF_FFFF


def test_registers_keep_what_is_written_and_a_program_runs_behind() -> None:
    """Each bit as 0 and as 1, there and back, in any order."""
    program, rng = RandomProgram(7, SMALL, fault=0.0), random.Random(0)
    device = RtlDevice(SMALL, **memory_options(program))
    registers = [each for each in REGISTERS if each.access == Access.READ_WRITE]
    values = {each.name: rng.getrandbits(32) for each in registers}
    for _ in range(4):
        rng.shuffle(registers)
        for each in registers:
            device.write_register(each.offset, values[each.name])
        for each in registers:
            assert device.read_register(each.offset) == values[each.name] & each.kept, each.name
        values = {name: value ^ WORD for name, value in values.items()}
    for each in registers:
        device.write_register(each.offset, each.reset)
    check(program, device, device.set_errors)
