"""What the compiler says that commands touch, against the golden machine."""

import random
from itertools import pairwise

import pytest
from drawn_commands import CONFIGS, WINDOWS, draw_command

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Opcode
from tpulite.compiler.encoding.accesses import accesses
from tpulite.golden.footprint import footprint

COMMANDS = 300


def places(ranges):
    """Return the places of ranges that are in order, apart from each other."""
    for before, after in pairwise(ranges):
        assert before.stop < after.start
    return {place for each in ranges for place in each}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE, Opcode.CONV, Opcode.VECTOR])
def test_accesses_contain_the_footprint(name, opcode):
    config, rng = CONFIGS[name], random.Random(f"{name} {opcode}")
    compared = exact = 0
    for _ in range(COMMANDS):
        command = draw_command(rng, opcode, config)
        golden = footprint(command, config, WINDOWS)
        if golden.fault is not None:
            continue
        mine = accesses(command, config)
        early, reads, writes = ({*rows.tolist()} for rows in (
            golden.early_reads, golden.reads, golden.writes
        ))  # fmt: skip
        assert places(mine.reads) | {r for rows in mine.early for r in rows} >= early | reads, (
            command
        )
        assert places(mine.writes) == writes, command
        if opcode == Opcode.CONV:
            assert {row for rows in mine.early for row in rows} == early, command
            assert places(mine.reads) >= reads, command
        compared += 1
        exact += places(mine.reads) == (early | reads if opcode == Opcode.VECTOR else reads)
        if opcode in (Opcode.LOAD, Opcode.STORE):
            base = WINDOWS[command["window"]].base // BEAT_BYTES
            beats = {beat - base for span in golden.spans for beat in span.beats}
            loaded, stored = places(mine.dram_reads), places(mine.dram_writes)
            assert (loaded, stored) == ((beats, set()) if opcode == Opcode.LOAD else (set(), beats))
            assert mine.window == command["window"]
    assert compared > COMMANDS // 2
    # Rows between the windows of a CONV count, too; nothing else does.
    assert exact == compared or (opcode == Opcode.CONV and exact > compared // 3)
