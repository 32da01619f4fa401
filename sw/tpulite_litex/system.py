"""Everything between a network and its lines on the UART of the simulated system."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tpulite.configs import named_chip
from tpulite_litex.compiled import compile_firmware
from tpulite_litex.device import REGISTERS
from tpulite_litex.steps import run_step
from tpulite_rtl.verilog import file_stem, header
from tpulite_verilated.library import cached_verilog
from tpulite_verilated.toolchain import build_once

__all__ = ["CLOCK", "CPUS", "BuiltSystem", "SimulatedConsole", "run_system"]

CLOCK = 1_000_000
"""Frequency that software is told, in Hz; low, so that what waits for a time does not wait long."""

CPUS = ("vexriscv", "serv")
"""LiteX's names of those that were simulated. SERV is bit-serial, without caches or interrupts."""

_SIMULATOR = "build/sim/core"
"""LiteX's folder of its simulator."""

_BRIDGE = "serial2tcp"
_MODULES = ("clocker", "serial2console", _BRIDGE)
"""What the simulator has around the design; LiteX's others need Ethernet and more."""

_ANY, _LOCAL = "s_addr = htonl(0);", "s_addr = htonl(INADDR_LOOPBACK);"
"""Where LiteX's bridge listens, and where ours does: other machines cannot reach it."""

_GENERATED = ("sim_init.cpp", "sim_header.h", "variables.mak")
_PROMPT = "litex>"
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_NOT_UART = re.compile(r"\[\w+\] |.*: Verilog \$finish")
"""What the simulator itself says."""

_JOBS = 2

# Verilator has optimized already: -O1 is as quick as more. LiteX takes one level for all, before
# which the levels of Verilator's own makefile give way; `-g0` leaves them their say.
_LEVELS = "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"
_LEVEL = "g0"
_SPLIT = "--output-split 20000 --output-split-cfuncs 20000"
"""Of LiteX's own, of a quarter of that size, each file reads the headers again."""

_FLAGS = "--trace-depth 1 --x-assign fast --x-initial fast --noassert -Wno-UNSIGNED"


@dataclass(frozen=True)
class BuiltSystem:
    """A folder with everything of a system."""

    folder: Path  #: Where it is built.
    config: str  #: Name of the chip's configuration.
    registers: int = REGISTERS  #: Where firmware looks for the chip.
    cpu: str = CPUS[0]  #: One of :data:`CPUS`.
    #: Of the chip, in Hz, beside the system's :data:`CLOCK`; 0 if that is the chip's, too. The
    #: simulator takes steps of what divides both half periods.
    chip_clock: int = 0

    @property
    def verilog(self) -> Path:
        """The chip."""
        return self.folder / f"{file_stem(self.config)}.v"

    def build(
        self,
        networks: Mapping[str, Path],
        main: str = "selftests",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Build the system with firmware that runs exported networks.

        Parameters
        ----------
        networks : mapping of str to Path
            Folders of ``tpulite export``, by the names that C has for the networks. Without any,
            firmware waits for the host to use the chip.
        main : str
            What the firmware does with them.
        settings : mapping of str to str, optional
            More variables of its makefile.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        chip = named_chip(self.config)
        self.verilog.write_text(header(self.config, *chip) + cached_verilog(*chip, portable=True))
        self._generate("headers, BIOS and C library (once, a minute)")
        variables = {"MAIN": main if networks else "idle", "REGISTERS": f"{self.registers:#x}u"}
        variables |= settings or {}
        binary = compile_firmware(self.folder, networks, variables)
        self._generate("Verilog of the system", "--firmware", binary)
        self._link_simulator()

    def lines(self, port: int | None = None) -> Iterator[str]:
        """Run the simulator and yield the lines of its UART; it ends when firmware says so.

        Parameters
        ----------
        port : int, optional
            Of localhost, where a host can connect to the bridge; without it there is no bridge.
        """
        with self.console(port) as console:
            yield from console.lines

    @contextmanager
    def console(self, port: int | None = None) -> Iterator["SimulatedConsole"]:
        """Run the simulator while its UART is used; parameters are those of :meth:`lines`."""
        gateware, pipe = self.folder / "gateware", subprocess.PIPE
        settings = gateware / "sim_config.js"
        others = [x for x in json.loads(settings.read_text()) if x.get("module") != _BRIDGE]
        pads = [{"name": "serial", "index": 1}, "sys_clk"]
        bridge = {"module": _BRIDGE, "interface": pads, "args": {"port": port}}
        settings.write_text(json.dumps([*others, bridge] if port else others))
        with subprocess.Popen(
            [gateware.resolve() / "Vsim"],
            cwd=gateware,
            stdin=pipe,
            stdout=pipe,
            text=True,
            errors="replace",
            restore_signals=False,  # a host that goes away must not end the simulator by SIGPIPE
        ) as simulator:
            try:
                yield SimulatedConsole(simulator)
            finally:
                simulator.kill()

    def _generate(self, what: str, *more: str | Path) -> None:
        command = [sys.executable, "-m", "tpulite_litex.generate", self.verilog, self.folder]
        command += ["--cpu", self.cpu, "--chip-clock", str(self.chip_clock), *more]
        run_step(what, command, self.folder, self.folder / "litex.log")

    def _link_simulator(self) -> None:
        """Verilate the system unless that was done, and link it into the folder."""
        gateware = self.folder / "gateware"
        sources = (gateware / "sources.txt").read_text().split()
        texts = [re.sub(r"//.*", "", Path(name).read_text()) for name in sources]
        texts += [(gateware / name).read_text() for name in _GENERATED[:2]]

        def build(folder: Path) -> None:
            for name in _GENERATED:
                (folder / name).write_text((gateware / name).read_text())
            core = _local_simulator(folder / "core")
            command = [
                *("make", "-f", core / "Makefile", f"SRC_DIR={core}"),
                f"MODULES={' '.join(_MODULES)}",
                f"CC_SRCS={_FLAGS} " + " ".join(f"--cc {name}" for name in sources),
                f"INC_DIR={_SPLIT}",  # behind those of LiteX
                *(f"OPT_LEVEL={_LEVEL}", f"JOBS={_JOBS}", *_LEVELS.split()),
                "TPULITE_HEADER=verilated.h",
            ]
            run_step("simulator (once, minutes)", command, folder, self.folder / "verilator.log")
            (folder / "obj_dir" / "Vsim").rename(folder / "Vsim")

        key = [*texts, _LOCAL, _FLAGS, _SPLIT, _LEVELS, version("verilator"), version("litex")]
        built = build_once("litex", key, build)
        for name in ("Vsim", "modules"):
            link = gateware / name
            link.unlink(missing_ok=True)
            link.symlink_to(built / name)


class SimulatedConsole:
    """The UART of a simulator that runs.

    Attributes
    ----------
    lines : iterator of str
        What it says, until it ends or its BIOS has found nothing to boot.
    """

    def __init__(self, simulator: subprocess.Popen[str]) -> None:
        self._simulator = simulator
        self.lines = self._said()

    def send(self, text: str) -> None:
        """Send text; its buffer holds 2,048 characters that firmware has not read."""
        assert self._simulator.stdin is not None
        self._simulator.stdin.write(text)
        self._simulator.stdin.flush()

    def _said(self) -> Iterator[str]:
        assert self._simulator.stdout is not None
        for line in map(_plain, self._simulator.stdout):
            if line and not _NOT_UART.match(line):
                yield line
            if line.startswith(_PROMPT):
                break


def run_system(system: BuiltSystem, port: int | None = None) -> bool:
    """Run a system, show its UART, and return whether it said that all is right."""
    last = ""
    for line in system.lines(port):
        print(line, flush=True)
        last = line
    return last == "done, 0 errors"


def _local_simulator(folder: Path) -> Path:
    """Copy LiteX's simulator; its bridge listens on localhost alone."""
    spec = find_spec("litex")
    assert spec is not None and spec.origin is not None
    shutil.copytree(Path(spec.origin).parent / _SIMULATOR, folder)
    bridge = folder / "modules" / _BRIDGE / f"{_BRIDGE}.c"
    text = bridge.read_text()
    if _ANY not in text:
        raise RuntimeError(f"{bridge.name} of LiteX does not say where it listens: {_ANY!r}")
    bridge.write_text(text.replace(_ANY, _LOCAL))
    return folder.resolve()


def _plain(line: str) -> str:
    return _COLOR.sub("", line).strip()
