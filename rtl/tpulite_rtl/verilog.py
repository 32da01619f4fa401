"""Verilog of the chip, in one self-contained text."""

import re

from amaranth.back import verilog

from tpulite.arch.config import Config
from tpulite_rtl.top import Chip

__all__ = ["TOP", "chip_verilog"]

TOP = "tpulite"
"""Name of the top module."""


def chip_verilog(config: Config) -> str:
    """Return synthesizable Verilog of the whole chip; equal configurations give equal texts."""
    # Line numbers of the Python sources would make every edited comment a different design.
    text = verilog.convert(Chip(config), name=TOP, strip_internal_attrs=True, emit_src=False)
    # Fields without bits leave names that nothing uses; Verilog has no vectors without bits.
    return re.sub(r"^ *wire \[-1:0\] [^;]*;\n", "", text, flags=re.MULTILINE)
