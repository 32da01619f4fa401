"""Packing of structured payloads, for drivers and monitors that see one wide integer."""

from collections.abc import Iterable, Mapping

from amaranth.lib import data

__all__ = ["pack", "pack_lanes", "unpack", "unpack_lanes"]


def pack(layout: data.StructLayout, values: Mapping[str, int]) -> int:
    """Return the bits of a struct; fields that are not named are 0, negative values wrap."""
    word = 0
    for name, value in values.items():
        field = layout[name]
        word |= (int(value) & ((1 << field.width) - 1)) << field.offset
    return word


def unpack(layout: data.StructLayout, word: int) -> dict[str, int]:
    """Return the fields of a struct as unsigned integers."""
    return {
        name: word >> layout[name].offset & ((1 << layout[name].width) - 1)
        for name in layout.members
    }


def pack_lanes(values: Iterable[int], width: int) -> int:
    """Return lanes of ``width`` bits as one integer, lane 0 lowest."""
    mask = (1 << width) - 1
    return sum((int(value) & mask) << width * lane for lane, value in enumerate(values))


def unpack_lanes(word: int, width: int, count: int) -> list[int]:
    """Return ``count`` signed lanes of ``width`` bits."""
    half = 1 << (width - 1)
    mask = 2 * half - 1
    return [((word >> width * lane & mask) ^ half) - half for lane in range(count)]
