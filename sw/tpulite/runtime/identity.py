"""What results depend on besides their inputs: sources and libraries, here or on a worker."""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path

from tpulite.needs import require_package
from tpulite.runtime.compile_cache import add_sources

Library = tuple[str, str, str]
"""A package as it is imported, the extra that brings it, and what needs it."""

_DISTRIBUTIONS = {"ai_edge_litert": "ai-edge-litert"}
"""Packages whose distributions have other names."""


@cache
def identity(packages: tuple[str, ...], libraries: tuple[Library, ...] = ()) -> str:
    """Return a name for all sources of some packages, and the versions of libraries.

    Parameters
    ----------
    packages : tuple of str
        Packages of ours, or of who wrote a device.
    libraries : tuple of Library
        What must be installed besides.

    Raises
    ------
    ValueError
        If something is missing, with what to install.
    """
    digest = hashlib.blake2b(version("tpulite").encode(), digest_size=16)
    for package, extra, user in libraries:
        require_package(package, extra, user)
        digest.update(f"{package} {version(_DISTRIBUTIONS.get(package, package))}\n".encode())
    for package in packages:
        spec = find_spec(package)
        if spec is None:
            raise ValueError(f"package {package} is missing: this is an older tpulite")
        for root in spec.submodule_search_locations or ():
            add_sources(digest, Path(root), (".",))
    return digest.hexdigest()


def device_packages(device: str) -> tuple[str, ...]:
    """Return this package, and the one that provides a device if that is another.

    ValueError if the device cannot be used here, because something is missing that it needs.
    """
    return tuple(dict.fromkeys(("tpulite", *_providers(device.partition(":")[0]))))


def _providers(kind: str) -> Iterator[str]:
    for entry in entry_points(group="tpulite.devices"):
        if entry.name == kind:
            try:
                entry.load()
            except ImportError as error:
                raise ValueError(f"Device {kind} cannot be used here: {error}") from error
            yield entry.module.partition(".")[0]
