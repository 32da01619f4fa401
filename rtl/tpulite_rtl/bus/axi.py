"""AXI4 and AXI4-Lite signals under the names that FPGA tools recognize."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.memory import ADDRESS_BITS

__all__ = [
    "BURST",
    "ID_BITS",
    "READ_BEAT",
    "WRITE_BEAT",
    "ReadSignature",
    "WriteSignature",
    "axi4_lite_members",
    "axi4_members",
]

ID_BITS = 1
"""Read transactions carry 0 for command fetch and 1 for LOAD; writes carry 0."""

BURST = data.StructLayout({"address": ADDRESS_BITS, "len": 8})
"""An address beat: first byte, and beats minus one. Bursts are INCR of 16-byte beats."""

READ_BEAT = data.StructLayout({"data": 8 * BEAT_BYTES, "error": 1, "last": 1})
"""A read beat; ``error`` stands for SLVERR or DECERR."""

WRITE_BEAT = data.StructLayout({"data": 8 * BEAT_BYTES, "strobe": BEAT_BYTES, "last": 1})
"""A write beat with a strobe bit for each byte."""


class ReadSignature(wiring.Signature):
    """Read channels as an internal master sees them; beats come in the order of the bursts."""

    def __init__(self) -> None:
        super().__init__(
            {
                # Bursts to read.
                "ar": Out(stream.Signature(BURST)),
                # Their beats.
                "r": In(stream.Signature(READ_BEAT)),
            }
        )


class WriteSignature(wiring.Signature):
    """Write channels as an internal master sees them."""

    def __init__(self) -> None:
        super().__init__(
            {
                # Bursts to write.
                "aw": Out(stream.Signature(BURST)),
                # Their beats.
                "w": Out(stream.Signature(WRITE_BEAT)),
                # Whether a burst failed.
                "b": In(stream.Signature(unsigned(1))),
            }
        )


def axi4_members(prefix: str) -> dict[str, wiring.Member]:
    """Return flat AXI4 master ports: ``{prefix}_araddr`` and so on."""
    address = {
        "id": ID_BITS, "addr": ADDRESS_BITS, "len": 8, "size": 3, "burst": 2, "cache": 4, "prot": 3
    }  # fmt: skip
    out = {f"ar{name}": width for name, width in address.items()} | {"arvalid": 1, "rready": 1}
    out |= {f"aw{name}": width for name, width in address.items()} | {"awvalid": 1, "bready": 1}
    out |= {"wdata": 8 * BEAT_BYTES, "wstrb": BEAT_BYTES, "wlast": 1, "wvalid": 1}
    into = {"arready": 1, "awready": 1, "wready": 1, "bid": ID_BITS, "bresp": 2, "bvalid": 1}
    into |= {"rid": ID_BITS, "rdata": 8 * BEAT_BYTES, "rresp": 2, "rlast": 1, "rvalid": 1}
    return {f"{prefix}_{name}": Out(width) for name, width in out.items()} | {
        f"{prefix}_{name}": In(width) for name, width in into.items()
    }


def axi4_lite_members(prefix: str, *, address_bits: int) -> dict[str, wiring.Member]:
    """Return flat AXI4-Lite subordinate ports, 32 bits of data."""
    into = {"awaddr": address_bits, "awprot": 3, "awvalid": 1, "wdata": 32, "wstrb": 4, "wvalid": 1}
    into |= {"bready": 1, "araddr": address_bits, "arprot": 3, "arvalid": 1, "rready": 1}
    out = {"awready": 1, "wready": 1, "bresp": 2, "bvalid": 1}
    out |= {"arready": 1, "rdata": 32, "rresp": 2, "rvalid": 1}
    return {f"{prefix}_{name}": In(width) for name, width in into.items()} | {
        f"{prefix}_{name}": Out(width) for name, width in out.items()
    }
