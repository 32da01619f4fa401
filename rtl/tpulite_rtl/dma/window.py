"""DRAM windows as the DMA engines see them."""

from amaranth.lib import data

from tpulite.arch.memory import ADDRESS_BITS
from tpulite.arch.registers import Permission

__all__ = ["WINDOW_LAYOUT"]

WINDOW_LAYOUT = data.StructLayout(
    {
        "base": ADDRESS_BITS,  # address of its first byte, a multiple of 16
        "size": 32,  # in bytes; zero closes it
        "permission": max(Permission.READ, Permission.WRITE).bit_length(),
    }
)
"""A window: stable while a program runs."""
