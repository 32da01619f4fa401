"""Bridge from the plain-Python contract to Amaranth shapes."""

from dataclasses import replace

from amaranth.hdl import Cat, Shape, Value, signed, unsigned
from amaranth.lib import data

from tpulite.arch import isa
from tpulite.arch.bitfield import Field, Layout
from tpulite.arch.config import Config

__all__ = [
    "INDEX_BITS",
    "built",
    "command_layout",
    "field_shape",
    "operation_of",
    "operation_shape",
    "struct_layout",
    "whole_field",
    "with_int4",
    "with_int16",
]

_PLAIN = Config()
_FULL = Config(int16=True)

_INT16 = ("int16", "digit")
"""Fields of CONV that only machines with int16 have."""

INDEX_BITS = 24
"""Width of a command index."""


def built(layout: Layout, config: Config) -> Layout:
    """Return a layout without the fields of CONV that a machine does not need.

    The last ones are of `int16`, `transposed` and `digit`; a machine that has a later one keeps
    those before it, which must be 0. Without int4 its bit is the top one of `byte_step`, which no
    legal command has.
    """
    if layout != isa.CONV:
        return layout
    fields = layout.fields
    if not config.int4:
        at = next(at for at, field in enumerate(fields) if field.name == "int4")
        steps = replace(fields[at - 1], width=fields[at - 1].width + fields[at].width)
        fields = (*fields[: at - 1], steps, *fields[at + 1 :])
    if not config.int16:
        fields = fields[: -1 if config.has_transposed_tiles else -3]
    return replace(layout, fields=fields)


def struct_layout(layout: Layout) -> data.StructLayout:
    """Return the Amaranth layout with the same fields at the same bit offsets.

    Bits of a field that lie behind all others are a member ``NAME_more``: see :func:`whole_field`.
    """
    members = {field.name: _shape(field, field.width - field.behind) for field in layout.fields}
    more = {f"{field.name}_more": field.behind for field in layout.fields if field.behind}
    return data.StructLayout(members | more)


def whole_field(command: data.View, name: str) -> Value:
    """Return an unsigned field of a command that has bits behind all others."""
    return Cat(command[name], command[f"{name}_more"])


def field_shape(opcode: isa.Opcode, name: str, config: Config = _FULL) -> Shape:
    """Return the shape of a field of a command, of a machine that has all but int4 by default."""
    fields = built(isa.COMMANDS[opcode], config).fields
    return next(_shape(field, field.width) for field in fields if field.name == name)


def operation_shape(config: Config) -> Shape:
    """Return the shape of what a VECTOR computes: no wider than the machine's operations."""
    return Shape.cast(range(max(isa.operations(config)) + 1))


def operation_of(command: data.View, config: Config) -> Value:
    """Return what a legal VECTOR computes."""
    return whole_field(command, "operation")[: operation_shape(config).width]


def _shape(field: Field, width: int) -> Shape:
    return signed(width) if field.signed else unsigned(width)


def command_layout(opcode: isa.Opcode, config: Config = _PLAIN) -> data.StructLayout:
    """Return the layout of a queued command: its fields, then its index in the program."""
    fields = struct_layout(built(isa.COMMANDS[opcode], config)).members
    return data.StructLayout({**fields, "index": unsigned(INDEX_BITS)})


def with_int16(config: Config, layout: data.StructLayout) -> data.StructLayout:
    """Return a share of a CONV that has `int16` and `digit`, too, in a machine with int16."""
    if not config.int16:
        return layout
    more = {name: field_shape(isa.Opcode.CONV, name) for name in _INT16}
    return data.StructLayout({**layout.members, **more})


def with_int4(config: Config, layout: data.StructLayout) -> data.StructLayout:
    """Return a share of a CONV that says whether its weights are int4, in a machine with int4."""
    return data.StructLayout({**layout.members, "int4": 1}) if config.int4 else layout
