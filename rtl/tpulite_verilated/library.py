"""The Verilated chip as a shared library, built once for each design."""

import ctypes
import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import tpulite.arch
import tpulite_rtl
from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.arch.registers import EngineState
from tpulite_verilated.progress import show_build, show_step, tell
from tpulite_verilated.toolchain import (
    build_once,
    require_own,
    require_tools,
    verilator_environment,
)

__all__ = [
    "HARNESS_DIR",
    "LIBRARY",
    "build_library",
    "cached_verilog",
    "load_library",
    "macro_model",
    "models",
]

HARNESS_DIR = Path(__file__).parent
"""Folder with the C++ sources and ``harness.h``."""

LIBRARY = "libtpulite.so"
"""Name of the library in its build folder."""

_TOP = "tpulite"
_SOURCES = ("harness.cpp", "coverage.h", "memory.h", "state.h", "harness.h")
_JOBS = 2
_DEFINES = f"-DTPULITE_ENGINES={len(Engine)} -DTPULITE_ENGINE_STATES={len(EngineState)}"
_VERILATOR = (
    *("--cc", "--exe", "--top-module", _TOP, "--prefix", f"V{_TOP}", "-o", LIBRARY),
    *("-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "--no-timing"),
    *("-Wno-WIDTH", "-Wno-fatal", "--output-split", "20000"),
    *("-CFLAGS", f"-fPIC -std=c++17 {_DEFINES}", "-LDFLAGS", "-shared"),
)
_CELLS = {"gw5a": ("MULT12X12",), "xilinx": ("DSP48E1", "CARRY4")}
"""Cells of targets that products are made of, of which there are models."""

_MAKE = "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O2"
"""Verilator has optimized already: -O2 gives the same speed and takes half as long again."""

_ZEROS = re.compile(r"^ +(\w+)\[0\] = (\d+)'h0+;\n((?: +\1\[\d+\] = \2'h0+;\n)+)", re.MULTILINE)
"""Initial values of a memory, a line for each row."""

_POINTER = ctypes.c_void_p
_SIGNATURES: dict[str, tuple[object, list]] = {
    "chip_new": (
        _POINTER,
        [ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_double, ctypes.c_uint64],
    ),
    "chip_free": (None, [_POINTER]),
    "chip_set_data_path": (None, [_POINTER, *[ctypes.c_int] * 3]),
    "chip_set_constants": (
        None,
        [_POINTER, *[ctypes.c_int] * 3, ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t],
    ),
    "chip_dram": (ctypes.POINTER(ctypes.c_uint8), [_POINTER]),
    "chip_reset": (None, [_POINTER]),
    "chip_set_errors": (
        None,
        [_POINTER, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t],
    ),
    "chip_set_mute_after": (None, [_POINTER, ctypes.c_int64]),
    "chip_write_register": (ctypes.c_int, [_POINTER, ctypes.c_uint32, ctypes.c_uint32]),
    "chip_read_register": (
        ctypes.c_int,
        [_POINTER, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)],
    ),
    "chip_step": (None, [_POINTER, ctypes.c_int64]),
    "chip_wait_interrupt": (ctypes.c_int, [_POINTER, ctypes.c_int64]),
    "chip_cycles": (ctypes.c_int64, [_POINTER]),
    "chip_trace": (None, [_POINTER, ctypes.c_int]),
    "chip_trace_size": (ctypes.c_size_t, [_POINTER, ctypes.c_int]),
    "chip_trace_rows": (ctypes.POINTER(ctypes.c_int64), [_POINTER, ctypes.c_int]),
    "chip_state_size": (ctypes.c_size_t, [_POINTER]),
    "chip_state_name": (ctypes.c_char_p, [_POINTER, ctypes.c_size_t]),
    "chip_state_shape": (
        None,
        [_POINTER, ctypes.c_size_t, *[ctypes.POINTER(ctypes.c_int)] * 2],
    ),
    "chip_flip": (None, [_POINTER, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]),
    "chip_write_coverage": (None, [_POINTER, ctypes.c_char_p]),
}


def cached_verilog(config: Config, build: Build | None = None, *, portable: bool = False) -> str:
    """Return the Verilog of the chip, which takes seconds to make, from a cache if possible.

    The cache knows the sources of the RTL and of the contract. ``portable`` asks for
    :func:`tpulite_rtl.portable.portable_verilog`, otherwise it is the form that simulators build.
    """
    build = Build.of(build)
    folders = [*tpulite.arch.__path__, *tpulite_rtl.__path__]
    sources = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    contents = [
        json.dumps([config.as_dict(), asdict(build), portable]),
        version("amaranth"),
        *(f"{path}\n{path.read_text()}" for path in sources),
    ]

    def make(folder: Path) -> None:
        # Late, because importing an HDL takes long, too.
        with show_step("Verilog of the chip"):
            from tpulite_rtl.portable import portable_verilog
            from tpulite_rtl.verilog import chip_verilog

            write = portable_verilog if portable else chip_verilog
            (folder / f"{_TOP}.v").write_text(write(config, build))

    return (build_once("verilog_cache", contents, make) / f"{_TOP}.v").read_text()


def macro_model() -> str:
    """Return Verilog of the RAM macros for simulation, as unkind as macros may be."""
    return _model("tpulite_ram")


def models(build: Build) -> str:
    """Return Verilog for simulation of what the chip instantiates: macros, gates, multipliers."""
    gates = _model("tpulite_clock_gate") if build.clock_gates else ""
    multipliers = "".join(map(_model, _CELLS.get(build.target, ())))
    return gates + multipliers + (macro_model() if build.memories == "macro" else "")


def _model(name: str) -> str:
    return (Path(tpulite_rtl.__file__).parent / f"lib/{name}.v").read_text()


def build_library(verilog: str, *, title: str, options: Sequence[str] = ()) -> Path:
    """Build the shared library of a chip, unless that was done before, and return its path.

    Parameters
    ----------
    verilog : str
        The chip; its top module is ``tpulite``.
    title : str
        What to call it in the message that explains the wait.
    options : sequence of str
        More options for Verilator.

    Raises
    ------
    RuntimeError
        If a tool is missing or the build fails.
    """

    def build(folder: Path) -> None:
        require_tools()
        tell(f"Building the simulator of {title} (once, about a minute) in {folder}")
        # Verilator writes an assignment for each row, which takes a third of the build of 16x16.
        (folder / f"{_TOP}.v").write_text(_ZEROS.sub(_zeroed, verilog))
        environment = os.environ | verilator_environment()
        environment["TPULITE_HEADER"] = "verilated.h"
        environment["MAKEFLAGS"] += f" {_MAKE}"
        source = str(HARNESS_DIR / "harness.cpp")
        with (folder / "build.log").open("w") as log, show_build(folder, title):
            for command in (
                ["verilator", "--Mdir", ".", *flags, f"-I{HARNESS_DIR}", f"{_TOP}.v", source],
                ["make", "-j", str(_JOBS), "-f", f"V{_TOP}.mk", f"USER_CPPFLAGS=-I{HARNESS_DIR}"],
            ):
                done = subprocess.run(
                    command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
                )
                if done.returncode:
                    log.flush()
                    tail = (folder / "build.log").read_text().splitlines()[-30:]
                    raise RuntimeError(
                        f"{command[0]} failed for the simulator of {title}:\n" + "\n".join(tail)
                    )

    flags = (*_VERILATOR, *options)
    sources = [(HARNESS_DIR / name).read_text() for name in _SOURCES]
    contents = [verilog, *sources, *flags, _MAKE, version("verilator")]
    return build_once("verilated", contents, build) / LIBRARY


def _zeroed(rows: re.Match[str]) -> str:
    """Return a loop that makes all rows of a memory zero."""
    name, width, others = rows.groups()
    count = 1 + others.count("\n")
    return f"""
    begin : zeros_of_{name}
      integer row;
      for (row = 0; row < {count}; row = row + 1) {name}[row] = {width}'h0;
    end
"""


def load_library(path: Path) -> ctypes.CDLL:
    """Load a library of :func:`build_library` and declare its functions.

    Raises
    ------
    RuntimeError
        If another user may have written it.
    """
    require_own(path)
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
