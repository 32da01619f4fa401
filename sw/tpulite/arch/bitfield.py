"""Words made of bit fields: written once as a table; packed, checked and printed from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple


@dataclass(frozen=True)
class Field:
    """One named bit field."""

    name: str  #: Name, unique in its layout.
    width: int  #: Width in bits.
    doc: str  #: What it means, with its unit.
    signed: bool = False  #: Whether it is two's complement.
    minimum: int | None = None  #: Smallest legal value; by default whatever fits.
    multiple: int = 1  #: Every legal value is a multiple of this power of two.
    enum: type[IntEnum] | None = None  #: The legal values, by name.
    behind: int = 0  #: So many of its bits, the highest, lie behind all fields: it has grown.

    @property
    def range(self) -> range:
        """Values that fit in the field."""
        low = -(1 << (self.width - 1)) if self.signed else 0
        return range(low, low + (1 << self.width))

    def problem(self, value: int) -> str | None:
        """Say why ``value`` is illegal here, or None if it is legal."""
        if value not in self.range:
            return f"must be in {self.range}, not {value!r}"
        if self.minimum is not None and value < self.minimum:
            return f"must be at least {self.minimum}, not {value!r}"
        if value % self.multiple:
            return f"must be a multiple of {self.multiple}, not {value!r}"
        if self.enum is not None and value not in list(self.enum):
            return f"must be one of {[int(member) for member in self.enum]}, not {value!r}"
        return None


@dataclass(frozen=True)
class Layout:
    """A word made of fields, the first field in the least significant bits.

    Examples
    --------
    >>> point = Layout("Point", (Field("x", 4, "Right."), Field("y", 4, "Up.", signed=True)))
    >>> hex(point.pack(x=3, y=-1))
    '0xf3'
    >>> point.unpack(0xF3)
    {'x': 3, 'y': -1}
    """

    name: str
    fields: tuple[Field, ...]
    doc: str = ""

    @cached_property
    def width(self) -> int:
        """Total width in bits."""
        return sum(field.width for field in self.fields)

    @cached_property
    def coders(self) -> tuple["Coder", ...]:
        """All that packing needs, worked out once: programs have thousands of commands."""
        offsets = accumulate((field.width - field.behind for field in self.fields), initial=0)
        return tuple(map(Coder.of, self.fields, offsets))

    @cached_property
    def grown(self) -> dict[str, int]:
        """Bit offset of the bits that lie behind all fields, by field."""
        grown = [field for field in self.fields if field.behind]
        start = self.width - sum(field.behind for field in grown)
        offsets = accumulate((field.behind for field in grown), initial=start)
        return {field.name: offset for field, offset in zip(grown, offsets, strict=False)}

    @cached_property
    def _grown(self) -> list[tuple[Field, int]]:
        return [(field, self.grown[field.name]) for field in self.fields if field.behind]

    @cached_property
    def _limits(self) -> dict[str, int]:
        return {field.name: field.range[-1] for field in self.fields}

    def limit(self, name: str) -> int:
        """Return the largest value that a field holds.

        Examples
        --------
        >>> Layout("Point", (Field("x", 4, "Right."),)).limit("x")
        15
        """
        return self._limits[name]

    def offsets(self) -> dict[str, int]:
        """Return the bit offset of each field, of its lowest bits if it is :attr:`grown`."""
        return {coder.field.name: coder.offset for coder in self.coders}

    def problem(self, values: Mapping[str, int]) -> str | None:
        """Name the first field whose value is illegal and say why, or return None."""
        for field, _, _, low, high, multiple, members in self.coders:
            value = values[field.name]
            # Field.problem in one line.
            if not low <= value <= high or value % multiple or (members and value not in members):
                return f"{self.name}.{field.name} {field.problem(value)}"
        return None

    def pack(self, **values: int) -> int:
        """Encode field values into a word.

        ValueError if a field is missing, unknown, or has an illegal value.
        """
        if values.keys() != self._limits.keys():
            wrong = sorted(values.keys() ^ self._limits.keys())
            raise ValueError(f"{self.name} has no or lacks the fields {wrong}")
        if (why := self.problem(values)) is not None:
            raise ValueError(why)
        word = 0
        for field, offset, mask, *_ in self.coders:
            word |= (int(values[field.name]) & mask) << offset
        for field, offset in self._grown:
            word |= (int(values[field.name]) >> field.width - field.behind) << offset
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """Decode a word into field values; the inverse of :meth:`pack`, with nothing checked."""
        values = {}
        for field, offset, mask, *_ in self.coders:
            value = word >> offset & mask
            if field.signed and value > mask >> 1:
                value -= mask + 1
            values[field.name] = value
        for field, offset in self._grown:
            more = word >> offset & (1 << field.behind) - 1
            values[field.name] |= more << field.width - field.behind
        return values


class Coder(NamedTuple):
    """A field as packing and checking need it."""

    field: Field  #: The field.
    offset: int  #: Its lowest bit in the word.
    mask: int  #: Its bits there, but for those that lie behind all fields.
    #: Least and largest legal value, and what legal values are multiples of.
    low: int
    high: int
    multiple: int
    members: frozenset[int] | None  #: The legal values, if they have names.

    @classmethod
    def of(cls, field: Field, offset: int) -> "Coder":
        """Return what a field needs whose lowest bit is there."""
        fits = field.range
        return cls(
            field,
            offset,
            (1 << field.width - field.behind) - 1,
            fits[0] if field.minimum is None else max(fits[0], field.minimum),
            fits[-1],
            field.multiple,
            None if field.enum is None else frozenset(map(int, field.enum)),
        )
