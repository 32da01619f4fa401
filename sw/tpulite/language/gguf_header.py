"""What the header of a GGUF file says, checked before anything believes it."""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

_MAGIC, _VERSIONS = b"GGUF", (2, 3)
_TEXT, _ARRAY, _UINT32 = 8, 9, 4
_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of values by their type; texts and arrays say how long they are."""

_ALIGNMENT = 32
_AXES = 4
"""Most axes of a tensor."""


def check_gguf(path: Path) -> None:
    """Refuse a GGUF file whose header does not fit the file.

    Its counts and lengths must end within the file; arrays hold no arrays; names of fields and of
    tensors are unique; tensors begin within the file.

    Raises
    ------
    ValueError
        If it does not; the message says what, without the path.
    """
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        _check_header(data)


def _check_header(data: mmap.mmap) -> None:
    if data[:4] != _MAGIC:
        raise ValueError("it does not begin with GGUF")
    order = "<" if int.from_bytes(data[4:6], "little") else ">"
    header = _Header(data, order, 4)
    if (version := header.number("I")) not in _VERSIONS:
        raise ValueError(f"its version is {version}, and only 2 and 3 are known")
    tensors, fields = header.number("Q"), header.number("Q")
    names: set[str] = set()
    alignment = _ALIGNMENT
    for _ in range(fields):
        name = header.name(names)
        kind = header.number("I")
        if name == "general.alignment" and kind == _UINT32:
            alignment = header.number("I")
        else:
            header.skip_value(name, kind)
    if alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"the alignment {alignment} is no power of two")
    names = set()
    places = [header.tensor(names) for _ in range(tensors)]
    room = len(data) - -(-header.place // alignment) * alignment
    for name, place in places:
        if place >= room:
            raise ValueError(f"the tensor {name!r} begins behind the end of the file")


@dataclass
class _Header:
    """A header, read from front to back."""

    data: mmap.mmap
    order: str
    place: int

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > len(self.data) - self.place:
            raise ValueError(f"at byte {self.place:,} it goes on for {size:,} bytes, and ends")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, kind: str) -> int:
        """Return an integer of a kind of :mod:`struct`."""
        return struct.unpack(self.order + kind, self.take(struct.calcsize(kind)))[0]

    def name(self, known: set[str]) -> str:
        """Return a name, and add it to those that are known."""
        name = self.take(self.number("Q")).decode()
        if name in known:
            raise ValueError(f"the name {name!r} is a duplicate")
        known.add(name)
        return name

    def tensor(self, known: set[str]) -> tuple[str, int]:
        """Return name and place of a tensor."""
        name = self.name(known)
        if not 1 <= (axes := self.number("I")) <= _AXES:
            raise ValueError(f"the tensor {name!r} has {axes:,} axes")
        self.take(8 * axes + 4)
        return name, self.number("Q")

    def skip_value(self, name: str, kind: int) -> None:
        """Pass over the value of a field."""
        count = 1
        if kind == _ARRAY:
            kind, count = self.number("I"), self.number("Q")
        if kind in _BYTES:
            self.take(_BYTES[kind] * count)
        elif kind != _TEXT:
            raise ValueError(f"the field {name!r} has values of the unknown type {kind}")
        else:
            for _ in range(count):
                self.take(self.number("Q"))
