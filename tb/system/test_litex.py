"""A LiteX system boots, finds the chip, runs networks to the bit, and goes on after errors."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from tpulite.models import MLP_DIGITS, DigitsTest
from tpulite.needs import missing_for_systems

if find_spec("litex") is None:
    pytest.skip("LiteX is missing (pip install 'tpulite[litex]')", allow_module_level=True)
if lacking := missing_for_systems():
    pytest.skip("; ".join(need.remedy for need in lacking), allow_module_level=True)

from tpulite_litex.system import BuiltSystem

CONFIG = "4x4"
DIGIT = 7
FAR = 0x4000000
"""Bytes of main memory."""


def exported(folder, name: str, config: str):
    """Export the digits' perceptron with a reference input that shows a 7."""
    test = DigitsTest.load()
    np.save(folder / "digit.npy", test.images[test.labels == DIGIT][:1])
    command = [sys.executable, "-m", "tpulite", "export", MLP_DIGITS, "--config", config]
    command += ["--name", name, "--input", folder / "digit.npy", "-o", folder / name]
    subprocess.run(command, check=True, capture_output=True)
    return folder / name


def replace_once(path, pattern: str, new: str) -> None:
    """Replace what one place of a file has."""
    text, count = re.subn(pattern, new, path.read_text())
    assert count == 1
    path.write_text(text)


def break_first_command(folder, name: str) -> None:
    """Put a word that is no command where an exported program begins."""
    (program,) = json.loads((folder / f"{name}.json").read_text())["programs"]
    path = folder / f"{name}_image.c"
    begin, words, end = re.split(r"(?<=\{\n)|(?=\n\})", path.read_text())
    each = re.findall(r"0x[0-9a-f]{8}", words)
    each[program["commands"] // 4] = "0xffffffff"
    path.write_text(begin + ",".join(each) + end)


def test_the_system_says_7_and_goes_on_after_errors(tmp_path):
    names = ("broken", "cut", "unread", "unwritten", "mlp")
    networks = {"other": exported(tmp_path, "other", "8x8")}
    networks |= {name: exported(tmp_path, name, CONFIG) for name in names}
    break_first_command(networks["broken"], "broken")
    replace_once(networks["cut"] / "cut.c", r"(?<=\.command_count = )\d+", "3")
    # Offsets of input and output that lead out of main memory.
    offsets = r"(\.offset\s=\s{\d+,\s)(\d+)(,\s)(\d+)"
    replace_once(networks["unread"] / "unread.c", offsets, rf"\g<1>{FAR}\3\4")
    replace_once(networks["unwritten"] / "unwritten.c", offsets, rf"\1\2\g<3>{FAR}")

    system = BuiltSystem(tmp_path / "soc", CONFIG)
    system.build(networks)
    lines = list(system.lines())
    assert lines[-1] == "done, 5 errors"
    figures = r"\d+ cycles, \d+ to start and end, \d+ for tensors"
    assert re.fullmatch(f"mlp: it says {DIGIT}, {figures}, 0 wrong bytes", lines[-2])
    said = dict(line.split(": ", 1) for line in lines[-7:-2])
    assert said.pop("other") == (
        "error 2, compiled for another version or configuration of the chip"
    )
    faults = {
        "broken": "2, illegal field, command 0",
        "cut": "9, the program has no END, command 3",
        "unread": "5, error of the bus at a read, command",
        "unwritten": "6, error of the bus at a write, command",
    }
    for name, fault in faults.items():
        assert said[name].startswith(f"error 6, the chip has stopped: fault {fault}"), said
