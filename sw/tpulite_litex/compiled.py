"""Firmware for a LiteX system, compiled with the headers that LiteX has written for it."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tpulite_litex import firmware
from tpulite_litex.steps import run_step

__all__ = ["compile_firmware"]


def compile_firmware(
    system: Path, networks: Mapping[str, Path], variables: Mapping[str, str]
) -> Path:
    """Compile firmware and say its size.

    Parameters
    ----------
    system : Path
        What LiteX has written of a system.
    networks : mapping of str to Path
        Folders of ``tpulite export``, by the names that C has for the networks.
    variables : mapping of str to str
        Of its makefile: ``MAIN`` is what it does.

    Returns
    -------
    Path
        What main memory is to hold.

    Raises
    ------
    RuntimeError
        If it does not compile.
    """
    folder = system / "firmware"
    folder.mkdir(exist_ok=True)
    exports = " ".join(str(path.resolve()) for path in networks.values())
    command = [
        *("make", "-B", "-f", firmware.MAKEFILE),  # its files do not tell what it is of
        f"BUILD_DIR={system.resolve()}",
        f"NETWORKS={' '.join(networks)}",
        f"EXPORTS={exports}",
        *(f"{name}={value}" for name, value in variables.items()),
    ]
    run_step("firmware", command, folder, system / "firmware.log")
    binary = folder / "firmware.bin"
    print(f"firmware: {binary.stat().st_size:,} bytes", file=sys.stderr)
    return binary
