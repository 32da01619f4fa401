"""The C of a LiteX system: what finds the chip there, and what runs self-tests."""

from pathlib import Path

__all__ = ["MAKEFILE"]

MAKEFILE = Path(__file__).parent / "Makefile"
"""Makes ``firmware.bin`` of exported networks; it says itself what it wants."""
