"""Bridge from the plain-Python contract to Amaranth shapes."""

from amaranth.hdl import Shape, signed, unsigned
from amaranth.lib import data

from tpulite.arch import isa
from tpulite.arch.bitfield import Layout

__all__ = ["INDEX_BITS", "command_layout", "field_shape", "struct_layout"]

INDEX_BITS = 24
"""Width of a command index."""


def struct_layout(layout: Layout) -> data.StructLayout:
    """Return the Amaranth layout with the same fields at the same bit offsets."""
    return data.StructLayout(
        {
            field.name: signed(field.width) if field.signed else unsigned(field.width)
            for field in layout.fields
        }
    )


def field_shape(opcode: isa.Opcode, name: str) -> Shape:
    """Return the shape of a field of a command."""
    return Shape.cast(struct_layout(isa.COMMANDS[opcode])[name].shape)


def command_layout(opcode: isa.Opcode) -> data.StructLayout:
    """Return the layout of a queued command: its fields, then its index in the program."""
    return data.StructLayout(
        {**struct_layout(isa.COMMANDS[opcode]).members, "index": unsigned(INDEX_BITS)}
    )
