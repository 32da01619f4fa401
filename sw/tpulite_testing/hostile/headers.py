"""Headers of weights that lie: GGUF, safetensors, and the JSON beside them."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from tpulite_testing.hostile.fields import INTEGERS, with_field_changed

__all__ = ["gguf_changed", "json_changed", "safetensors_changed"]

_WIDTHS = (1, 1, 2, 2, 4, 4, 4, 1, -1, -2, 8, 8, 8)
"""Bytes of the kinds of values of GGUF; -1 is text, -2 an array."""

_TEXT, _ARRAY = 8, 9
_LARGE = (2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 32, 2**64 - 1)
_RAW = ("1e400", "-1e400", "NaN", "-Infinity", "9" * 5000, '"\\ud800"', "[" * 100_000, "{}")
"""Values that JSON, or Python's, can have."""


def gguf_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a number, or exchange two names, in the header of a GGUF file."""
    numbers, texts = _gguf_places(data)
    changed = bytearray(data)
    if rng.random() < 0.15:
        (a, size), (b, other) = (texts[i] for i in rng.integers(len(texts), size=2))
        changed[b : b + other] = data[a : a + min(size, other)].ljust(other)
        return bytes(changed)
    place, width = numbers[rng.integers(len(numbers))]
    old = int.from_bytes(data[place : place + width], "little")
    values = (old + 1, old - 1, 2 * old, old + 32, *range(16), *INTEGERS, *_LARGE)
    value = int(values[rng.integers(len(values))]) % (1 << 8 * width)
    changed[place : place + width] = value.to_bytes(width, "little")
    return bytes(changed)


def _gguf_places(data: bytes) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return places and sizes of numbers (few of each array), and of texts."""
    numbers, texts, place = [(4, 4), (8, 8), (16, 8)], [], 24
    tensors, fields = struct.unpack_from("<QQ", data, 8)

    def number(width: int) -> int:
        nonlocal place
        numbers.append((place, width))
        place += width
        return int.from_bytes(data[place - width : place], "little")

    def text() -> None:
        nonlocal place
        size = number(8)
        texts.append((place, size))
        place += size

    def value(kind: int) -> None:
        if kind == _TEXT:
            text()
        elif kind == _ARRAY:
            inner, count = number(4), number(8)
            kept = len(numbers), len(texts)
            for _ in range(count):
                value(inner)
            del numbers[kept[0] + 3 :], texts[kept[1] + 3 :]
        else:
            number(_WIDTHS[kind])

    for _ in range(fields):
        text()
        value(number(4))
    for _ in range(tensors):
        text()
        for _ in range(number(4)):
            number(8)
        number(4)
        number(8)
    return numbers, texts


def safetensors_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Change the header of a safetensors file, or what it says of its length."""
    size = int.from_bytes(data[:8], "little")
    head, body = data[8 : 8 + size], data[8 + size :]
    match rng.integers(5):
        case 0:
            large = (*INTEGERS, *_LARGE, len(data), size + 1)
            size = int(large[rng.integers(len(large))]) % (1 << 64)
            return size.to_bytes(8, "little") + head + body
        case 1:
            tensors = json.loads(head)
            a, b = (sorted(tensors)[i] for i in rng.integers(len(tensors), size=2))
            key = ("data_offsets", "shape", "dtype")[rng.integers(3)]
            if "data_offsets" in tensors[a].keys() & tensors[b].keys():
                tensors[a][key] = tensors[b][key]
            head = json.dumps(tensors).encode()
        case 2:
            tensors = json.loads(head)
            each = tensors[sorted(tensors)[rng.integers(len(tensors))]]
            each["dtype"] = ("F8_E4M3", "BF16", "BOOL", "I8", "U64", "X", "F16")[rng.integers(7)]
            head = json.dumps(tensors).encode()
        case _:
            head = json_changed(head, rng)
    return len(head).to_bytes(8, "little") + head + body


def json_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a value of JSON, to what numbers, texts and depths Python reads or refuses."""
    tree = json.loads(data)
    if rng.random() < 0.6:
        return json.dumps(with_field_changed(tree, rng)).encode()
    sites = list(_sites(tree))
    container, key = sites[rng.integers(len(sites))]
    if rng.random() < 0.2 and isinstance(container, dict):  # twice, with another value
        container["\0"] = container[key]
        return json.dumps(tree).replace('"\\u0000"', json.dumps(key)).encode()
    container[key] = "\0"
    raw = _RAW[rng.integers(len(_RAW))]
    return json.dumps(tree).replace('"\\u0000"', raw).encode("utf-8", "surrogatepass")


def _sites(tree: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    for key in keys:
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _sites(tree[key])
