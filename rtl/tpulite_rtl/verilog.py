"""Verilog of the chip, in one self-contained text."""

import json
import re
from dataclasses import asdict
from importlib.metadata import version

from amaranth.back import verilog

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.collector import collector_paused
from tpulite_rtl.top import Chip

__all__ = ["TOP", "chip_verilog", "file_stem", "header"]

TOP = "tpulite"
"""Name of the top module."""

_LINT = (
    "Arithmetic is of the widths that its results need, which a language with implicit widths",
    "calls mismatches; of selected cases one matches; bits of a word may be other bits of it.",
    *(
        f"verilator lint_off {warning}"
        for warning in ("WIDTH", "CASEOVERLAP", "UNSIGNED", "UNOPTFLAT")
    ),
)
"""Why Verilator does not warn of what is meant. A header has it, for lint at its defaults; what
simulators build has none, and gets flags. ``WIDTH`` is that of all versions of Verilator."""

_CELLS = {"ecp5": "CCU2C", "gw5a": "MULT12X12", "xilinx": "DSP48E1, CARRY4"}


@collector_paused()
def chip_verilog(config: Config, build: Build | None = None) -> str:
    """Return synthesizable Verilog of the whole chip; equal arguments give equal texts.

    Parameters
    ----------
    config : Config
        The machine.
    build : Build, optional
        How it is written.
    """
    # Line numbers of the Python sources would make every edited comment a different design.
    text = verilog.convert(
        Chip(config),
        name=TOP,
        platform=build,
        strip_internal_attrs=True,
        emit_src=False,
    )
    # Fields without bits leave names that nothing uses; Verilog has no vectors without bits.
    return re.sub(r"^ *wire \[-1:0\] [^;]*;\n", "", text, flags=re.MULTILINE)


def header(name: str, config: Config, build: Build) -> str:
    """Return the comment that says what a chip is: version, configuration, hash, license.

    Directives in it keep Verilator from warning of the widths of generated Verilog.

    Parameters
    ----------
    name : str
        What the configuration was asked for by.
    config : Config
        The machine. The hash is what its register CONFIG_HASH shows.
    build : Build
        How it is written.
    """
    cells = _CELLS.get(build.target, "none")
    return "".join(
        f"// {line}\n"
        for line in (
            f"tpulite {version('tpulite')}, configuration {name}, hash 0x{config.hash:08x}",
            f"top module: {TOP}; cells of the target: {cells}",
            "SPDX-License-Identifier: Apache-2.0",
            *json.dumps(config.as_dict() | asdict(build), indent=1).splitlines(),
            *_LINT,
        )
    )


def file_stem(name: str) -> str:
    """Return the name of the files of a configuration, which every tool can read.

    Examples
    --------
    >>> file_stem("16x16,ub_rows=4096,roundings=tflite+float32")
    'tpulite_16x16_ub_rows_4096_roundings_tflite_float32'
    """
    return f"{TOP}_{re.sub(r'[^A-Za-z0-9]+', '_', name)}"
