"""The C of firmware: a driver of the chip, and what runs exported networks with it."""

from pathlib import Path

__all__ = ["BIND", "DRIVER", "FOLDER", "RUN"]

FOLDER = Path(__file__).parent
"""Folder of the sources."""

DRIVER = ("tpulite.h", "tpulite.c", "tpulite_regs.h")
"""The driver alone; what ``tpulite_network.h`` needs besides, its sources include."""

RUN = (*DRIVER, "tpulite_network.h", "tpulite_network.c", "tpulite_layout.c")
"""The driver, and what runs networks with it."""

BIND = FOLDER / "bind"
"""Folder of the sources that bind networks to shapes."""
