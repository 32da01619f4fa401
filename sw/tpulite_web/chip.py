"""The chip as WebAssembly: the Verilated RTL, its memory and the C driver, built by Emscripten."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import tpulite.firmware
from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.arch.registers import EngineState
from tpulite_verilated.library import HARNESS_DIR, cached_verilog
from tpulite_verilated.toolchain import build_once, verilator_environment

__all__ = ["COMPILER", "build_chip", "require_compiler"]

COMPILER = "emcc"
"""Emscripten's compiler of C; that of C++ comes with it."""

_TOP = "tpulite"
_NATIVE = Path(__file__).with_name("native")
_FIRMWARE = Path(tpulite.firmware.__file__).parent
_SOURCES = (
    *(HARNESS_DIR / name for name in ("harness.cpp", "harness.h", "memory.h", "state.h")),
    HARNESS_DIR / "coverage.h",
    *(_NATIVE / name for name in ("web.cpp", "watch.h", "watch.vlt")),
    *(_FIRMWARE / name for name in ("tpulite.c", "tpulite_layout.c", "tpulite.h")),
    *(_FIRMWARE / name for name in ("tpulite_network.h", "tpulite_regs.h")),
)
_RUNTIME = "verilated.cpp"
_VERILATOR = (
    *("--cc", "--top-module", _TOP, "--prefix", f"V{_TOP}", "--Mdir", "."),
    *("-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "--no-timing"),
    *("-Wno-WIDTH", "-Wno-fatal", "--output-split", "20000"),
)
_COMPILE = (
    "-DVL_IGNORE_UNKNOWN_ARCH",  # WebAssembly has no instruction for busy waiting
    *("-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TRACE=0", "-DVM_TIMING=0", "-DTPULITE_WATCH=1"),
    "-w",
)
_LINK = (
    *("-O2", "-sSTANDALONE_WASM", "--no-entry", "-sALLOW_MEMORY_GROWTH"),
    # Copies of the memory are what the page steps back to, so it begins small.
    *("-sTOTAL_STACK=262144", "-sINITIAL_MEMORY=2097152"),
)
_EXPORTS = (
    *("web_open", "web_register", "web_start", "web_advance", "web_finish"),
    *("web_framing", "web_cycle", "web_frame_bytes", "web_frames", "web_frame_count"),
    *("web_spans", "web_span_count", "web_buffer", "web_writers"),
    *("tpulite_pack", "tpulite_unpack", "malloc", "free", "sbrk"),
)
_ZERO = re.compile(r"^ +\S+\[\d+\] = \d+'d0;\n", re.MULTILINE)
"""A row of a memory that begins with zero, as every one does that nobody initializes."""


def require_compiler() -> None:
    """Check that Emscripten is installed; RuntimeError with the package if not."""
    if shutil.which(COMPILER) is None:
        raise RuntimeError("make web needs Emscripten (800 MB); on Debian: apt install emscripten")


def build_chip(config: Config) -> bytes:
    """Return the WebAssembly module of a configuration, built unless it was built before.

    Raises
    ------
    RuntimeError
        If a tool is missing or fails; the message has the end of what it said.
    """
    require_compiler()
    verilog = _ZERO.sub("", cached_verilog(config))
    defines = _defines(config)

    def build(folder: Path) -> None:
        (folder / f"{_TOP}.v").write_text(verilog)
        environment = os.environ | verilator_environment()
        include = Path(environment["VERILATOR_ROOT"]) / "include"

        def run(*command: str) -> None:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True
            )
            if done.returncode:
                tail = (done.stdout + done.stderr).splitlines()[-30:]
                raise RuntimeError(f"{command[0]} failed:\n" + "\n".join(tail))

        run("verilator", *_VERILATOR, str(_NATIVE / "watch.vlt"), f"{_TOP}.v")
        folders = (".", HARNESS_DIR, _NATIVE, _FIRMWARE, include, include / "vltstd")
        flags = (*_COMPILE, *defines, *(f"-I{each}" for each in folders))
        sources = [
            *(path for path in sorted(folder.glob("V*.cpp")) if not path.stem.endswith("__Dpi")),
            *(path for path in _SOURCES if path.suffix in (".c", ".cpp")),
            include / _RUNTIME,
        ]

        def compile_one(source: Path) -> None:
            compiler = ("em++", "-std=c++17") if source.suffix == ".cpp" else (COMPILER,)
            # What runs once is small rather than fast.
            level = "-Os" if source.stem.endswith("Slow") else "-O2"
            run(*compiler, level, *flags, "-c", str(source), "-o", f"{source.stem}.o")

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, sources))
        exports = ",".join(f"_{name}" for name in _EXPORTS)
        objects = sorted(path.name for path in folder.glob("*.o"))
        run("em++", *objects, *_LINK, f"-sEXPORTED_FUNCTIONS={exports}", "-o", f"{_TOP}.wasm")

    contents = [verilog, *(path.read_text() for path in _SOURCES), _compiler_version()]
    contents += [version("verilator"), *_VERILATOR, *_COMPILE, *_LINK, *_EXPORTS, *defines]
    return (build_once("web_chip", contents, build) / f"{_TOP}.wasm").read_bytes()


def _defines(config: Config) -> Sequence[str]:
    values = {
        "ENGINES": len(Engine),
        "ENGINE_STATES": len(EngineState),
        "ARRAY_SIZE": config.array_size,
        "UB_ROWS": config.ub_rows,
        "READ_LATENCY": REFERENCE_MEMORY.read_latency,
        "WRITE_RESPONSE": REFERENCE_MEMORY.write_response,
    }
    return [f"-DTPULITE_{name}={value}" for name, value in values.items()]


def _compiler_version() -> str:
    done = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]
