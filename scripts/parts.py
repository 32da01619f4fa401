"""Write sw/tpulite/parts.csv, and the table of docs/fpga.md, from what has been measured.

make synth CONFIG=ecp5-25     (and -45, -85, 4x4, 8x8, 16x16)
make pnr CONFIG=ecp5-25 SEEDS=3
make timing CONFIG=ecp5-25
python scripts/parts.py

Takes what there is of build/{synth,pnr,timing}/CONFIG.json of this definition of CONFIG; the rest
stays.
"""

from dataclasses import asdict, replace
from pathlib import Path

from tpulite.cli.common import save_csv
from tpulite.configs import CONFIG_PARTS, CONFIGS
from tpulite.parts import SIZES, Size
from tpulite_silicon.place import PLACERS, TIMING_WEIGHT
from tpulite_silicon.report import identity, known_report

ROOT = Path(__file__).resolve().parents[1]
TABLE, PAGE = ROOT / "sw/tpulite/parts.csv", ROOT / "docs/fpga.md"
BEGIN, END = "<!-- table: scripts/parts.py -->\n", "<!-- end -->\n"


def measured(name: str) -> Size | None:
    """Return the row of a configuration: as measured, else the one there is, unless it is stale."""
    digest = identity(name)["hash"]
    known = SIZES.get(name)
    known = known if known and known.hash == digest else None
    synth, pnr, timing = (known_report(kind, name) for kind in ("synth", "pnr", "timing"))
    gates = timing["chip"]["gates"] if timing else known and known.gates
    if pnr and pnr["fmax_mhz"]:
        fmax, placed = min(pnr["fmax_mhz"].values()), _placed(pnr)
    else:
        fmax, placed = (known.fmax_mhz, known.placed) if known else (None, "")
    if synth:
        part = CONFIG_PARTS.get(name, "")
        return Size(name, digest, part, **synth["chip"], gates=gates, fmax_mhz=fmax, placed=placed)
    return known and replace(known, gates=gates, fmax_mhz=fmax, placed=placed)


def _placed(pnr: dict) -> str:
    """Say what was placed where and how, by the options of `make pnr` that are no default."""
    seeds = sorted(map(int, pnr["fmax_mhz"]))
    how = ["one block" if pnr["flat"] else "by blocks"]
    how += [f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"]
    how += [f"weight {pnr['weight']}"] if pnr["weight"] != TIMING_WEIGHT else []
    how += [f"target {pnr['mhz']} MHz"] if pnr.get("mhz") else []
    how += ["alternate"] if pnr["alternate"] else []
    how += [f"{pnr['placer']} placer"] if pnr["placer"] != PLACERS[0] else []
    how += [f"blockages {pnr['blockages']}"] if pnr.get("blockages") else []
    how += [f"density {pnr['density']}"] if pnr.get("density") else []
    return ", ".join([pnr["part"], *how])


def as_markdown(sizes: list[Size]) -> str:
    """Return the table of the page."""
    lines = ["| `CONFIG` | part | LUT | FF | DSP (18x18) | block RAM | Fmax |"]
    lines.append("|---|---|---|---|---|---|---|")
    for size in sizes:
        shares = {name: f" ({share:.1%})" for name, share in size.shares.items()}
        cells = [f"{getattr(size, n):,}{shares.get(n, '')}" for n in ("lut", "ff", "dsp", "bram")]
        lines.append(f"| `{size.config}` | {' | '.join([size.part, *cells, size.speed])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write both tables."""
    sizes = [size for name in CONFIGS if (size := measured(name))]
    save_csv(TABLE, [asdict(size) for size in sizes])
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + as_markdown(sizes) + END + rest.split(END)[1])
    print("\n".join(f"{size.config}: {size.line}" for size in sizes))


if __name__ == "__main__":
    main()
