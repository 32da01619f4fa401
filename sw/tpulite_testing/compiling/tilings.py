"""Tilings made by hand."""

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.ops import Op, Region, Tiling

__all__ = ["CONFIG", "conv", "load", "store", "tiling", "vector"]

CONFIG = Config(ub_rows=64)


def load(buffer, **fields):
    """Return a LOAD; from SCRATCH it is one of what is stored before."""
    fields = {"window": Window.CONSTANTS, "lines": 1, "rows": buffer.rows} | fields
    barrier = fields["window"] == Window.SCRATCH
    return Op(Opcode.LOAD, 0, fields, {"row": Region(buffer)}, barrier=barrier)


def store(buffer, **fields):
    """Return a STORE to SCRATCH."""
    fields = {"window": Window.SCRATCH, "lines": 1, "rows": buffer.rows} | fields
    return Op(Opcode.STORE, 0, fields, {"row": Region(buffer)})


def conv(out, *read, layer=0):
    """Return a CONV that reads up to three buffers."""
    names = ("act_row", "weight_row", "record_row")
    places = {name: Region(buffer) for name, buffer in zip(names, read, strict=False)}
    return Op(Opcode.CONV, layer, {}, {**places, "out_row": Region(out)})


def vector(out, a, *, layer):
    """Return a VECTOR of one operand."""
    return Op(Opcode.VECTOR, layer, {}, {"a_row": Region(a), "out_row": Region(out)})


def tiling(*ops, first_row=0):
    """Return commands as a tiling."""
    return Tiling(tuple(ops), (), (), 0, first_row)
