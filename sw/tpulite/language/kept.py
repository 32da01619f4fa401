"""Bytes that take long to make are kept in the user's cache."""

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tpulite.atomic import write_whole
from tpulite.cache import cache_home


def kept_bytes(part: str, name: str, make: Callable[[], bytes], *, cache: bool) -> bytes:
    """Return what was made before under a name, or make it.

    Parameters
    ----------
    part : str
        One of :data:`tpulite.cache.PARTS`.
    name : str
        Of the file there: a digest of all that the bytes depend on.
    cache : bool
        Whether to look there, and to keep what is made.
    """
    path = cache_home() / part / name
    if cache and path.exists():
        return path.read_bytes()
    data = make()
    if cache:
        with contextlib.suppress(OSError):  # a folder that cannot be written keeps nothing
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, partial(Path.write_bytes, data=data))
    return data
