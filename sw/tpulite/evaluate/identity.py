"""What answers depend on besides network and images: sources and libraries, here or on a worker."""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path

import tpulite
from tpulite.needs import require_package
from tpulite.runtime.compile_cache import COMPILER, add_sources

__all__ = ["Library", "identity"]

Library = tuple[str, str, str]
"""A package as it is imported, the extra that brings it, and what needs it."""

_ANSWERS = ("evaluate", "frontend", "quant", "runtime")
"""Folders that decide what answers are, besides the compiler's."""

_DISTRIBUTIONS = {"ai_edge_litert": "ai-edge-litert"}
"""Packages whose distributions have other names."""


@cache
def identity(device: str, libraries: tuple[Library, ...] = ()) -> str:
    """Return a name for all sources and libraries that answers depend on.

    Parameters
    ----------
    device : str
        Where networks run.
    libraries : tuple of Library
        What must be installed.

    Raises
    ------
    ValueError
        If the device or a library is missing, with what to install.
    """
    digest = hashlib.blake2b(version("tpulite").encode(), digest_size=16)
    add_sources(digest, Path(tpulite.__path__[0]), (*COMPILER, *_ANSWERS))
    for package, extra, user in libraries:
        require_package(package, extra, user)
        digest.update(f"{package} {version(_DISTRIBUTIONS.get(package, package))}\n".encode())
    for root in _roots(device.partition(":")[0]):
        add_sources(digest, root, (".",))
    return digest.hexdigest()


def _roots(kind: str) -> Iterable[Path]:
    """Yield folders of the package that provides a device, if that is not this one."""
    for entry in entry_points(group="tpulite.devices"):
        package = entry.module.partition(".")[0]
        if entry.name == kind and package != "tpulite":
            try:
                entry.load()
            except ImportError as error:
                raise ValueError(f"Device {kind} cannot be used here: {error}") from error
            spec = find_spec(package)
            assert spec is not None
            yield from map(Path, spec.submodule_search_locations or ())
