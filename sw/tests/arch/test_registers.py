import pytest

from tpulite.arch.isa import Engine
from tpulite.arch.memory import PAGE_BYTES, REFERENCE_MEMORY, WINDOWS, Window
from tpulite.arch.registers import (
    COUNTER_OFFSETS,
    IDENTIFICATION,
    REGISTERS,
    EngineState,
    offset_of,
)


def test_registers_are_words_that_do_not_overlap():
    offsets = [register.offset for register in REGISTERS]
    assert len(set(offsets)) == len(offsets)
    assert all(offset % 4 == 0 for offset in offsets)
    assert len({register.name for register in REGISTERS}) == len(REGISTERS)
    assert all(register.doc for register in REGISTERS)


def test_every_engine_has_a_counter_for_every_state():
    names = {f"{engine.name}_{state.name}".lower() for engine in Engine for state in EngineState}
    others = {"cycles", "conflicts", "read_beats", "write_beats"}
    assert COUNTER_OFFSETS.keys() == names | others


def test_offsets_are_found_by_name():
    assert offset_of("ID") == 0
    assert offset_of("WINDOW3_SIZE") - offset_of("WINDOW0_SIZE") == 3 * 16
    with pytest.raises(ValueError, match=r"^There is no register 'WINDOW4_SIZE'$"):
        offset_of("WINDOW4_SIZE")


def test_identification_reads_as_letters():
    assert IDENTIFICATION.to_bytes(4, "big") == b"TPUL"


def test_memory_contract():
    assert len(Window) == WINDOWS
    assert PAGE_BYTES == 4096
    assert (REFERENCE_MEMORY.read_latency, REFERENCE_MEMORY.write_response) == (50, 8)
