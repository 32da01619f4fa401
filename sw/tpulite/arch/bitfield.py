"""Words made of bit fields: written once as a table; packed, checked and printed from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

__all__ = ["Field", "Layout"]


@dataclass(frozen=True)
class Field:
    """One named bit field.

    Parameters
    ----------
    name : str
        Name, unique in its layout.
    width : int
        Width in bits.
    doc : str
        What it means, with its unit.
    signed : bool
        Whether it is two's complement.
    minimum : int, optional
        Smallest legal value; by default whatever fits.
    multiple : int
        Every legal value is a multiple of this power of two.
    enum : type of IntEnum, optional
        The legal values, by name.
    """

    name: str
    width: int
    doc: str
    signed: bool = False
    minimum: int | None = None
    multiple: int = 1
    enum: type[IntEnum] | None = None

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

    @property
    def width(self) -> int:
        """Total width in bits."""
        return sum(field.width for field in self.fields)

    def limit(self, name: str) -> int:
        """Return the largest value that a field holds.

        Examples
        --------
        >>> Layout("Point", (Field("x", 4, "Right."),)).limit("x")
        15
        """
        return next(field.range[-1] for field in self.fields if field.name == name)

    def offsets(self) -> dict[str, int]:
        """Return the bit offset of each field."""
        offsets, offset = {}, 0
        for field in self.fields:
            offsets[field.name] = offset
            offset += field.width
        return offsets

    def problem(self, values: Mapping[str, int]) -> str | None:
        """Name the first field whose value is illegal and say why, or return None."""
        for field in self.fields:
            if (why := field.problem(values[field.name])) is not None:
                return f"{self.name}.{field.name} {why}"
        return None

    def pack(self, **values: int) -> int:
        """Encode field values into a word.

        Raises
        ------
        ValueError
            If a field is missing, unknown, or has an illegal value.
        """
        names = {field.name for field in self.fields}
        if values.keys() != names:
            wrong = sorted(values.keys() ^ names)
            raise ValueError(f"{self.name} has no or lacks the fields {wrong}")
        if (why := self.problem(values)) is not None:
            raise ValueError(why)
        word = 0
        for field, offset in zip(self.fields, self.offsets().values(), strict=True):
            word |= (int(values[field.name]) & ((1 << field.width) - 1)) << offset
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """Decode a word into field values; the inverse of :meth:`pack`, with nothing checked."""
        values = {}
        for field in self.fields:
            value = word & ((1 << field.width) - 1)
            if field.signed and value >> (field.width - 1):
                value -= 1 << field.width
            values[field.name] = value
            word >>= field.width
        return values
