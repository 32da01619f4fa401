"""The C of firmware: a driver of the chip, and what runs exported networks with it."""

from pathlib import Path

__all__ = ["DRIVER", "FOLDER"]

FOLDER = Path(__file__).parent
"""Folder of the sources."""

DRIVER = ("tpulite.h", "tpulite.c", "tpulite_regs.h")
"""The driver alone; what ``tpulite_network.h`` needs besides, its sources include."""
