"""FPGAs that configurations are made for, and what configurations take of them."""

import csv
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Part:
    """Lookup tables, flip-flops, multipliers and block RAMs of 18 kbit.

    What a lookup table or a multiplier is differs by family: of an ECP5 four inputs and 18 x 18.
    """

    lut: int
    ff: int
    dsp: int
    bram: int


PARTS = {
    "LFE5U-25": Part(lut=24_288, ff=24_288, dsp=28, bram=56),
    "LFE5U-45": Part(lut=43_848, ff=43_848, dsp=72, bram=108),
    "LFE5U-85": Part(lut=83_640, ff=83_640, dsp=156, bram=208),
}
"""What the parts of Lattice's ECP5 family have."""

FAMILY_PARTS = {
    "7-series": {
        "XC7A35T": Part(lut=20_800, ff=41_600, dsp=90, bram=100),
        "XC7A100T": Part(lut=63_400, ff=126_800, dsp=240, bram=270),
        "XC7A200T": Part(lut=134_600, ff=269_200, dsp=740, bram=730),
    },
    "GW5A": {"GW5AST-138": Part(lut=138_240, ff=138_240, dsp=596, bram=340)},
}
"""What parts of other families have, the largest last: lookup tables of six inputs and ``DSP48E1``
of Xilinx's 7-series, of four inputs and ``MULT12X12`` of Gowin's GW5A."""


@dataclass(frozen=True)
class Size:
    """What a configuration takes of an ECP5, and in standard cells."""

    config: str  #: Its name.
    hash: str  #: That of the configuration that was measured.
    part: str  #: The part that it is made for, one of `PARTS`; else empty.
    #: Sum over the blocks, each synthesized alone.
    lut: int
    ff: int
    dsp: int
    bram: int
    #: Area in standard cells, in NAND2, without large memories; None if that was not measured.
    gates: int | None
    fmax_mhz: float | None  #: Of the slowest placement, routed; None if there is none.
    #: On which part that was, perhaps a larger one, and from what; empty if there is none.
    placed: str

    @property
    def speed(self) -> str:
        """The clock that nextpnr promises, and where, in words."""
        return (
            "not placed and routed"
            if self.fmax_mhz is None
            else f"{self.fmax_mhz:.1f} MHz ({self.placed})"
        )

    @property
    def line(self) -> str:
        """The size in words."""
        size = f"{self.lut:,} LUT, {self.ff:,} FF, {self.dsp} DSP, {self.bram} block RAM"
        if not self.part:
            return f"ECP5: {size}"
        clock = "not placed" if self.fmax_mhz is None else f"{self.fmax_mhz:.1f} MHz"
        return f"{self.part}: {size}, {clock}"

    @property
    def shares(self) -> dict[str, float]:
        """Which shares of the part it takes, by resource; none if it is made for no part."""
        if not self.part:
            return {}
        part = PARTS[self.part]
        return {
            name: getattr(self, name) / getattr(part, name) for name in ("lut", "ff", "dsp", "bram")
        }


def read_sizes(text: str) -> dict[str, Size]:
    """Return the rows of a table with the fields of `Size` as columns, by configuration."""
    rows = (
        Size(
            config=row["config"],
            hash=row["hash"],
            part=row["part"],
            lut=int(row["lut"]),
            ff=int(row["ff"]),
            dsp=int(row["dsp"]),
            bram=int(row["bram"]),
            gates=int(row["gates"]) if row["gates"] else None,
            fmax_mhz=float(row["fmax_mhz"]) if row["fmax_mhz"] else None,
            placed=row["placed"],
        )
        for row in csv.DictReader(text.splitlines())
    )
    return {size.config: size for size in rows}


SIZES = read_sizes(files("tpulite").joinpath("parts.csv").read_text())
"""What has been measured: ``scripts/parts.py`` writes it."""


@dataclass(frozen=True)
class FamilySize(Part):
    """What a configuration takes of a family's parts, synthesized as one block."""

    family: str  #: One of :data:`FAMILY_PARTS`.
    config: str  #: Its name.
    hash: str  #: That of the configuration that was measured.

    @property
    def line(self) -> str:
        """The size in words."""
        return f"{self.lut:,} LUT, {self.ff:,} FF, {self.dsp} multipliers, {self.bram} block RAM"


def read_families(text: str) -> dict[tuple[str, str], FamilySize]:
    """Return the rows of a table with the fields of `FamilySize`, by family and configuration."""
    sizes = [
        FamilySize(
            family=row["family"],
            config=row["config"],
            hash=row["hash"],
            lut=int(row["lut"]),
            ff=int(row["ff"]),
            dsp=int(row["dsp"]),
            bram=int(row["bram"]),
        )
        for row in csv.DictReader(text.splitlines())
    ]
    return {(size.family, size.config): size for size in sizes}


FAMILY_SIZES = read_families(files("tpulite").joinpath("families.csv").read_text())
"""What has been measured: ``scripts/families.py`` writes it."""
