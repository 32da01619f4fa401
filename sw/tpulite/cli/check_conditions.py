"""Conditions under which figures of a network can be compared."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpulite.arch.config import Config
from tpulite.cli.answering import Images
from tpulite.cli.reading import Reading
from tpulite.compiler.options import Options
from tpulite.configs import CONFIGS
from tpulite.runtime.model import Model


@dataclass(frozen=True)
class Conditions:
    """What must be the same for figures to be comparable."""

    network: Path  #: The network's file.
    model: Model  #: The network, planned.
    reading: Reading  #: How it was read.
    images: Images  #: What its accuracy is measured on.
    device: str  #: Whose cycles count.

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; choices that are the default are left out."""
        default = vars(Options())
        options = {x: each for x, each in vars(self.model.options).items() if each != default[x]}
        return {
            "network": {"sha256": _digest(self.network)},
            "config": _config(self.model.config, self.reading.config_name),
            "numerics": str(self.model.exactness),
            "options": options,
            "part": self._part(),
            "device": self.device,
            "data": self._data(),
        }

    def _part(self) -> dict[str, Any]:
        """Return which part of the file is the network, and what the file leaves open."""
        reading = self.reading
        values = {
            "inputs": list(reading.inputs),
            "outputs": list(reading.outputs),
            "shapes": {name: list(shape) for name, shape in reading.shapes.shapes.items()},
            "dims": dict(reading.shapes.dims),
            "states": [list(pair) for pair in reading.states],
            "classes": reading.classes,
            "strict": reading.strict,
            "calibration": reading.calibration and _digest(reading.calibration),
        }
        return {name: value for name, value in values.items() if value}

    def _data(self) -> dict[str, Any] | None:
        """Return the data set of the accuracy; None without one."""
        images = self.images
        if images.path is None:
            return None
        values = {
            "sha256": _digest(images.path),
            "labels": images.labels and _digest(images.labels),
            "names": images.names and _digest(images.names),
            "pixels": images.pixels and list(images.pixels),
            "limit": images.limit,
        }
        return {name: value for name, value in values.items() if value}


def _config(config: Config, given: str) -> dict[str, str]:
    known = [name for name, each in CONFIGS.items() if each == config]
    return {"name": known[0] if known else given, "hash": f"{config.hash:#010x}"}


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder and their names."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    files = sorted(each for each in path.rglob("*") if each.is_file())
    lines = (f"{_digest(each)} {each.relative_to(path).as_posix()}\n" for each in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
