"""NumPy archives as tests compare them."""

import zipfile
from pathlib import Path

__all__ = ["members"]


def members(path: Path) -> dict[str, bytes]:
    """Return the files of an archive; its headers differ from one Python to another."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
