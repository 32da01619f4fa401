"""A LiteX system boots, finds the chip, runs networks to the bit, and goes on after errors."""

import fcntl
import hashlib
import json
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tpulite.cli.main import commands
from tpulite.configs import named_config
from tpulite.models import MLP_DIGITS, DigitsTest
from tpulite.needs import missing_for_systems
from tpulite.runtime.model import Model

if find_spec("litex") is None:
    pytest.skip("LiteX is missing (pip install '.[litex]')", allow_module_level=True)
if lacking := missing_for_systems():
    pytest.skip("; ".join(need.remedy for need in lacking), allow_module_level=True)

import tpulite_litex
from tpulite_litex.device import LitexDevice
from tpulite_litex.system import BuiltSystem
from tpulite_testing.evidence import sources_of
from tpulite_verilated.toolchain import build_root

CONFIG = "4x4"
DIGIT = 7
CUT_AFTER = 2_003
"""Bytes from the host: within a word of the weights."""

STACK = 0x1000_0000
"""Where the CPU has memory of its own."""

FAR = 0x4000000
"""Bytes of main memory."""


@pytest.fixture(scope="module")
def system() -> Iterator[BuiltSystem]:
    """The system; its BIOS and C library take a minute and stay for the next run.

    Another process that tests it waits, because LiteX builds all in one folder.
    """
    contents = version("litex") + sources_of(Path(tpulite_litex.__file__).parent)
    folder = build_root() / "systems" / hashlib.sha256(contents.encode()).hexdigest()[:20]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield BuiltSystem(folder / "soc", CONFIG)


def exported(folder, name: str, config: str):
    """Export the digits' perceptron with a reference input that shows a 7."""
    test = DigitsTest.load()
    np.save(folder / "digit.npy", test.images[test.labels == DIGIT][:1])
    options = ["--config", config, "--name", name, "--input", folder / "digit.npy"]
    command = ["export", MLP_DIGITS, *options, "-o", folder / name]
    assert CliRunner().invoke(commands, list(map(str, command))).exit_code == 0
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


def test_the_system_says_7_and_goes_on_after_errors(system, tmp_path):
    names = ("broken", "cut", "unread", "unwritten", "mlp")
    networks = {"other": exported(tmp_path, "other", "8x8")}
    networks |= {name: exported(tmp_path, name, CONFIG) for name in names}
    break_first_command(networks["broken"], "broken")
    replace_once(networks["cut"] / "cut.c", r"(?<=\.command_count = )\d+", "3")
    # Offsets of input and output that lead out of main memory.
    offsets = r"(\.offset\s=\s{\d+,\s)(\d+)(,\s)(\d+)"
    replace_once(networks["unread"] / "unread.c", offsets, rf"\g<1>{FAR}\3\4")
    replace_once(networks["unwritten"] / "unwritten.c", offsets, rf"\1\2\g<3>{FAR}")

    system.build(networks)
    lines = list(system.lines())
    # Without a host no socket is open.
    assert "serial2tcp" not in (system.folder / "gateware" / "sim_config.js").read_text()
    assert lines[-1] == "done, 5 errors"
    figures = r"\d+ cycles, -?\d+ to start and end, \d+ for tensors"
    assert re.fullmatch(f"mlp: class {DIGIT}, {figures}, 0 wrong bytes", lines[-2])
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


def cut_line(port: int, limit: int) -> int:
    """Pass on what a host sends to a port, and break off after some bytes; return the new port."""
    listener = socket.create_server(("localhost", 0))

    def forward() -> None:
        left = limit
        with (
            listener,
            listener.accept()[0] as host,
            socket.create_connection(("localhost", port)) as chip,
        ):
            while left:
                for ready in select.select([host, chip], [], [])[0]:
                    data = ready.recv(left if ready is host else 4096)
                    (chip if ready is host else host).sendall(data)
                    left -= len(data) if ready is host else 0

    threading.Thread(target=forward, daemon=True).start()
    return listener.getsockname()[1]


def free_port() -> int:
    """Return a TCP port where nothing listens."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def test_a_chip_that_is_not_there_is_an_error(system, tmp_path):
    elsewhere = replace(system, registers=STACK)
    elsewhere.build({"mlp": exported(tmp_path, "mlp", CONFIG)})
    said = "mlp: error 1, there is no tpulite at this address"
    assert list(elsewhere.lines())[-2:] == [said, "done, 1 errors"]


def last_layers(folder: Path) -> Path:
    """Write the last two layers of the digits' perceptron, which have a seventh of its weights."""
    with np.load(MLP_DIGITS) as digits:
        arrays = {
            f"{name}{layer - 1}": digits[f"{name}{layer}"]
            for layer in (2, 3)
            for name in ("W", "b", "scale")
        }
        np.savez(folder / "last_layers.npz", classes=digits["classes"], **arrays)
    return folder / "last_layers.npz"


# Pyserial leaves a socket to the collector when its other end has gone.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_host_runs_a_network_and_survives_a_broken_line(system, tmp_path, monkeypatch):
    """Of few weights: each of six runs writes them over the line of a simulated UART."""
    system.build({})
    port = free_port()
    uart = system.lines(port)
    assert "ready for the host" in uart
    with pytest.raises(ConnectionRefusedError):  # only localhost itself is answered
        socket.create_connection(("127.0.0.2", port))
    try:
        model = Model.load(last_layers(tmp_path), config=named_config(CONFIG))
        values = np.random.default_rng(DIGIT).integers(0, 128, (2, 64), np.int8)
        due = model.run(values, device="golden")
        name = f"litex:tcp:localhost:{port}"
        results = model.run(values, device=name)
        assert (results.output == due.output).all()
        assert results.cycles and min(results.cycles) > 0

        with pytest.raises(OSError, match=r"litex:tcp:localhost:\d+ is broken"):
            model.run(values, device=f"litex:tcp:localhost:{cut_line(port, CUT_AFTER)}")
        assert (model.run(values, device=name).output == due.output).all()

        with monkeypatch.context() as patch, pytest.raises(OSError, match=f"{name} is broken"):
            patch.setattr(LitexDevice, "_wait", LitexDevice.close)  # while the chip runs
            model.run(values, device=name)
        assert (model.run(values, device=name).output == due.output).all()
    finally:
        uart.close()


@pytest.mark.regress("minutes for another simulator: the system is elaborated by tb/unit")
@pytest.mark.parametrize("options", [{"chip_clock": 1_250_000}, {"cpu": "serv"}])
def test_another_clock_or_cpu(options, tmp_path):
    other = BuiltSystem(tmp_path / "soc", CONFIG, **options)
    other.build({"mlp": exported(tmp_path, "mlp", CONFIG)})
    *_, result, last = other.lines()
    assert result.startswith(f"mlp: class {DIGIT}, ") and last == "done, 0 errors"


@pytest.mark.regress("the protocol is tested in seconds by test_mlperf.py")
def test_the_runner_meets_the_simulated_system():
    command = [sys.executable, "-m", "tpulite_litex.mlperf", "mlp", "--samples", "2"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.search(r"^performance: [\d,]+ cycles per inference, [\d,]+ of the chip$", said, re.M)
    assert "accuracy: 2 of 2 results are the golden machine's" in said
    assert "100.0% of 2 files are of their class" in said
