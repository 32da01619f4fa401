"""Folders of safetensors files and a config.json, as models are published."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.needs import require_package

Reader = Callable[[], np.ndarray]
"""Reads a tensor as float32."""


def read_config(path: Path) -> dict[str, Any]:
    """Return the config.json of a folder, or of the folder that a file lies in.

    Raises
    ------
    OSError
        If there is none.
    ValueError
        If it is no object of JSON.
    """
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return read_object((path if path.is_dir() else path.parent) / "config.json")


def read_object(file: Path) -> dict[str, Any]:
    """Return an object of JSON; OSError if there is no such file, ValueError if it is none."""
    try:
        found = json.loads(file.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file} must be an object of JSON")
    return found


def safetensors(path: Path) -> Iterator[tuple[str, Reader]]:
    """Yield names of all tensors of a file or a folder, each with what reads it.

    Raises
    ------
    ValueError
        If the package safetensors is missing, there is no such file, or it is damaged.
    """
    require_package("safetensors", "language", "A safetensors file")
    package: Any = import_module("safetensors")
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path} has no .safetensors file")
    for file in files:
        try:
            with package.safe_open(file, framework="numpy") as opened:
                for name in opened.keys():  # noqa: SIM118 - it is no mapping
                    yield name, partial(_read, file, opened, name)
        except package.SafetensorError as error:
            raise ValueError(f"{file} is not a safetensors file: {error}") from error


def _read(file: Path, opened: Any, name: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # whoever needs finite weights says so
            return opened.get_tensor(name).astype(np.float32)
    except Exception as error:  # anything: it is foreign code on a foreign file
        raise ValueError(f"{file}: the weights {name!r} cannot be read: {error}") from error
