"""Archives of compiled programs and networks: equal contents give equal bytes."""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ZIP = b"PK\x03\x04"
"""How archives begin."""

_LEVEL = 1
"""Of compression: more effort gains half a percent."""

_SAMPLE = 1 << 13
"""Bytes from the middle of a member that say whether it shrinks."""

_LESS = 7 / 8
"""Part of its size to which a member must shrink, or it is stored as it is: weights hardly do, and
took a sixth of the time of compiling ResNet-50."""

_UNPACKED_BYTES = 1 << 28
_RATIO = 4


def packed(
    kind: str, version: int, metadata: Mapping[str, Any], parts: Mapping[str, bytes]
) -> bytes:
    """Return an archive of plain values that JSON can hold, and of other members by name."""
    about = {"format": f"tpulite-{kind}", "version": version, **metadata}
    about |= {"sha256": _digest(about, parts)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {f"{kind}.json": json.dumps(about).encode(), **parts}.items():
            # A ZipInfo of our own has a fixed date, unlike writestr with a name.
            method = zipfile.ZIP_DEFLATED if _shrinks(data) else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(name), data, method, _LEVEL)
    return buffer.getvalue()


def _shrinks(data: bytes) -> bool:
    """Return whether it pays to compress a member, as far as a sample tells."""
    start = max(0, len(data) - _SAMPLE) // 2
    sample = data[start : start + _SAMPLE]
    return len(zlib.compress(sample, _LEVEL)) < _LESS * len(sample)


def _digest(metadata: Mapping[str, Any], parts: Mapping[str, bytes]) -> str:
    """Return a checksum of all that an archive holds."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(parts):
        digest.update(f"\n{name} {len(parts[name])}\n".encode())
        digest.update(parts[name])
    return digest.hexdigest()


def holds(kind: str, path: Path) -> bool:
    """Tell whether a file is an archive of a kind: its name does not matter."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{kind}.json" in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return False


def members(data: bytes) -> dict[str, bytes]:
    """Return what an archive holds, by name.

    Raises
    ------
    ValueError
        If it unpacks to more than 256 MiB and more than four times its own size, which networks
        never do: small files must not take much memory.
    BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error
        If it is damaged, encrypted or compressed in an unknown way.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(member.file_size for member in archive.infolist())
        if size > max(_UNPACKED_BYTES, _RATIO * len(data)):
            raise ValueError(f"the archive of {len(data):,} bytes unpacks to {size:,}")
        return {member.filename: archive.read(member) for member in archive.infolist()}


@contextmanager
def opened(
    kind: str, version: int, data: bytes, path: str | Path
) -> Iterator[tuple[dict[str, Any], dict[str, bytes]]]:
    """Open what :func:`packed` has made: its metadata and its members, while they are used.

    ValueError if it is no whole archive of that kind and version, was changed, or reading its
    contents fails; the message begins with the path.
    """
    try:
        parts = members(data)
        if f"{kind}.json" not in parts:
            raise ValueError(f"it holds no {kind}.json")
        metadata = json.loads(parts.pop(f"{kind}.json"))
        if metadata["format"] != f"tpulite-{kind}":
            raise ValueError(f"format {metadata['format']!r}")
        if metadata["version"] != version:
            raise ValueError(f"version {metadata['version']!r}, this is {version}")
        if metadata.pop("sha256") != _digest(metadata, parts):
            raise ValueError("its contents do not match their checksum")
        yield metadata, parts
    except Exception as error:  # damaged archives, and wrong contents, make readers raise anything
        raise ValueError(f"{path} is not a tpulite {kind} file: {error}") from error
