"""Compiled programs, kept by what they were made of: equal networks are compiled once."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import numpy as np

import tpulite
from tpulite.arch.config import Config
from tpulite.atomic import write_whole
from tpulite.cache import cache_home
from tpulite.compiler.options import Options
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program

COMPILER = (
    "arch",
    "archive.py",
    "collector.py",
    "command_columns.py",
    "compiler",
    "configs.py",
    "counted.py",
    "golden",
    "graph",
    "layout",
    "memories.py",
    "near.py",
    "needs.py",
    "program.py",
    "tensor_spec.py",
)
"""Folders and files of this package that decide what a program looks like."""

_LIMIT_BYTES = 1 << 30
_SUFFIX = ".tpl"


@dataclass(frozen=True)
class ProgramCache:
    """A folder of programs, each named by its key.

    Entries that cannot be read count as missing, and a folder that cannot be written keeps nothing:
    a cache never makes a compilation fail.
    """

    folder: Path  #: Where they are; it is made when it is needed.
    #: Size beyond which those go that were not used for the longest time; None keeps all.
    limit_bytes: int | None = _LIMIT_BYTES

    @classmethod
    def default(cls) -> "ProgramCache":
        """Return the user's cache: ``programs`` in :func:`tpulite.cache.cache_home`."""
        return cls(cache_home() / "programs")

    def get(
        self,
        layers: LayerGraph,
        config: Config,
        options: Options,
        make: Callable[[], Program],
        *,
        fresh: bool = False,
    ) -> Program:
        """Return the program of a network, from the cache or by ``make``, whose result is kept.

        Parameters
        ----------
        layers, config, options
            What the program is made of: arguments of the compiler.
        make : callable
            Compiles.
        fresh : bool
            Whether to compile even if there is an entry.
        """
        path = self.folder / (program_key(layers, config, options) + _SUFFIX)
        program = None if fresh else _load(path, config)
        if program is None:
            program = make()
            self._keep(path, program)
        return program

    def entries(self) -> tuple[Path, ...]:
        """Return the files, those first that were used last."""
        found = [(path.stat(), path) for path in self.folder.glob(f"*{_SUFFIX}")]
        return tuple(path for _, path in sorted(found, key=lambda x: (-x[0].st_mtime_ns, x[1])))

    def _keep(self, path: Path, program: Program) -> None:
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, program.save)
            if self.limit_bytes is None:
                return
            size = 0
            for entry in self.entries():
                size += entry.stat().st_size
                if size > self.limit_bytes and entry != path:
                    entry.unlink(missing_ok=True)


class Digest(Protocol):
    """A hash that is being computed."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        ...


def program_key(layers: LayerGraph, config: Config, options: Options) -> str:
    """Return a name for all that a program depends on: 128 bits as hexadecimal digits.

    That is the compiler's own source, the network with every constant, the machine and the options.
    """
    return digest_of(compiler_key(), config.as_dict(), options, layers)


def digest_of(*parts: object) -> str:
    """Return 128 bits as hexadecimal digits that differ if plain values or dataclasses differ."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        for data in _serialize(part):
            digest.update(data)
    return digest.hexdigest()


@cache
def compiler_key() -> str:
    """Return the version of the package and a hash of the compiler's source."""
    digest = hashlib.blake2b(version("tpulite").encode())
    add_sources(digest, Path(tpulite.__path__[0]), COMPILER)
    return digest.hexdigest()


def add_sources(digest: Digest, root: Path, names: Iterable[str]) -> None:
    """Add Python sources to a hash, by their places below ``root``: files, and whole folders."""
    for name in names:
        path = root / name
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            content = source.read_bytes()
            digest.update(f"{source.relative_to(root).as_posix()} {len(content)}\n".encode())
            digest.update(content)


def _serialize(value: object) -> Iterator[bytes | memoryview]:
    """Yield bytes that differ if values differ: every piece says its type and its length.

    Mappings count with their order, which the compiler sees.
    """
    match value:
        case np.ndarray():
            yield f"array {value.dtype.str} {value.shape}\n".encode()
            yield np.ascontiguousarray(value).data
        case Enum():
            yield f"{type(value).__name__}.{value.name}\n".encode()
        case None | bool() | int() | float() | str():
            text = repr(value).encode()
            yield f"{type(value).__name__} {len(text)}\n".encode()
            yield text
        case np.generic():
            yield f"{value.dtype.str} {value.item()!r}\n".encode()
        case Mapping():
            yield f"mapping {len(value)}\n".encode()
            for key, item in value.items():
                yield from _serialize(key)
                yield from _serialize(item)
        case tuple() | list():
            yield f"sequence {len(value)}\n".encode()
            for item in value:
                yield from _serialize(item)
        case frozenset() | set():
            yield from _serialize(sorted(value))
        case _ if is_dataclass(value):
            yield f"{type(value).__name__} {len(fields(value))}\n".encode()
            for field in fields(value):
                yield from _serialize(field.name)
                yield from _serialize(getattr(value, field.name))
        case _:
            raise TypeError(f"A {type(value).__name__} has no key")


def _load(path: Path, config: Config) -> Program | None:
    """Return an entry, if it is there and whole."""
    try:
        program = Program.load(path)
    except (OSError, ValueError):
        return None
    if program.config != config:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # used now, so it stays longer
    return program
