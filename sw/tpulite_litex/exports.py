"""Exported networks of a simulated system."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from tpulite.export.c_text import identifier
from tpulite.models import MLP_DIGITS, DigitsTest

__all__ = ["DIGITS", "description", "export", "exported"]

DIGITS = "mlp"
"""The network of the package, whose reference input is a 7."""

_DIGIT = 7


def export(network: str, name: str, config: str, folder: Path) -> None:
    """Run ``tpulite export``; if it fails it has said why, and SystemExit has its code."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    more = []
    if network == DIGITS:
        test = DigitsTest.load()
        digit = folder.parent / "digit.npy"
        np.save(digit, test.images[test.labels == _DIGIT][:1])
        network, more = str(MLP_DIGITS), ["--input", str(digit)]
    command = [sys.executable, "-m", "tpulite", "export", network, "--config", config]
    command += ["--name", name, "-o", str(folder), *more]
    if done := subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        sys.exit(done)


def exported(networks: Iterable[str], config: str, folder: Path) -> dict[str, Path]:
    """Export networks, the digits if there are none, below a folder; return each one's by name."""
    folders = {}
    for network in tuple(networks) or (DIGITS,):
        name = identifier(Path(network).stem)
        folders[name] = folder / "export" / name
        export(network, name, config, folders[name])
    return folders


def description(folder: Path) -> Mapping:
    """Return what the JSON file of an exported network says."""
    return json.loads((folder / f"{folder.name}.json").read_text())
