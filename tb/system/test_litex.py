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


def exported(folder, name: str, config: str):
    """Export the digits' perceptron with a reference input that shows a 7."""
    test = DigitsTest.load()
    np.save(folder / "digit.npy", test.images[test.labels == DIGIT][:1])
    command = [sys.executable, "-m", "tpulite", "export", MLP_DIGITS, "--config", config]
    command += ["--name", name, "--input", folder / "digit.npy", "-o", folder / name]
    subprocess.run(command, check=True, capture_output=True)
    return folder / name


def break_first_command(folder, name: str) -> None:
    """Put a word that is no command where an exported program begins."""
    (program,) = json.loads((folder / f"{name}.json").read_text())["programs"]
    path = folder / f"{name}_image.c"
    begin, words, end = re.split(r"(?<=\{\n)|(?=\n\})", path.read_text())
    each = re.findall(r"0x[0-9a-f]{8}", words)
    each[program["commands"] // 4] = "0xffffffff"
    path.write_text(begin + ",".join(each) + end)


def test_the_system_says_7_and_goes_on_after_errors(tmp_path):
    networks = {
        "other": exported(tmp_path, "other", "8x8"),
        "broken": exported(tmp_path, "broken", CONFIG),
        "mlp": exported(tmp_path, "mlp", CONFIG),
    }
    break_first_command(networks["broken"], "broken")

    system = BuiltSystem(tmp_path / "soc", CONFIG)
    system.build(networks)
    lines = list(system.lines())
    other, broken, mlp, done = lines[-4:]
    assert other == "other: error 2, compiled for another version or configuration of the chip"
    fault = "fault 2, illegal field, command 0, address 0x"
    assert broken.startswith(f"broken: error 6, the chip has stopped: {fault}")
    cycles = r"\d+ cycles \(\d+ of the CPU\)"
    assert re.fullmatch(f"mlp: it says {DIGIT}, {cycles}, 0 wrong bytes", mlp)
    assert done == "done, 2 errors"
