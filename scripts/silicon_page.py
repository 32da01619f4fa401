"""Write the tables of docs/silicon.md from what has been measured.

make timing CONFIG=4x4
make timing CONFIG=16x16
make synth CONFIG=4x4
python scripts/silicon_page.py 4x4 16x16

Takes what there is of build/{timing,synth,pnr}/CONFIG.json.
"""

import argparse
import json
from pathlib import Path

from markdown_table import table
from tpulite_verilated.toolchain import build_root

PAGE = Path(__file__).resolve().parents[1] / "docs/silicon.md"
BEGIN, END = "<!-- tables: scripts/silicon_page.py -->\n", "<!-- end -->\n"
_PATHS = 12


def section(name: str, timing: dict, synth: dict, pnr: dict) -> list[str]:
    """Return the tables of a configuration; what was not measured is empty."""
    lines = []
    if timing:
        chip = timing["chip"]
        share = chip["gates_array"] / chip["gates"]
        lines += [
            f"## {name}",
            "",
            f"{chip['fo4']:.1f} FO4; {chip['gates']:,} gates without memory macros, {share:.1%} of",
            "them in processing elements.",
            "",
            *table(
                "FO4|levels|from|through|to", [_path(path) for path in timing["paths"]][:_PATHS]
            ),
        ]
    rows = {block["name"]: block for block in timing.get("blocks", ())}
    sizes = {block["name"]: block for block in synth.get("blocks", ())}
    if synth:
        sizes["all"] = synth["chip"]
        rows.setdefault("all", {"gates": timing["chip"]["gates"]} if timing else {})
    lines += table(
        "block|count|FO4|levels|gates|LUT|FF|DSP|BRAM",
        [_block(block, row, sizes.get(block, {})) for block, row in rows.items()],
    )
    for placed in pnr.get("seeds", ()):
        way = f"`{placed['nets'][0]}` to `{placed['nets'][-1]}`"
        lines += [
            f"{pnr['part']}, seed {placed['seed']}: {placed['fmax_mhz']:.1f} MHz, {way}, "
            f"{placed['logic_ns']} ns of logic and {placed['routing_ns']} ns of routing.",
            "",
        ]
    return lines


def _path(path: dict) -> tuple[object, ...]:
    through = ", ".join(path["through"])
    return path["fo4"], path["levels"], f"`{path['start']}`", through, f"`{path['end']}`"


def _block(name: str, row: dict, size: dict) -> tuple[object, ...]:
    resources = [f"{size[key]:,}" if key in size else "" for key in ("lut", "ff", "dsp", "bram")]
    gates = f"{row['gates']:,}" if "gates" in row else ""
    return (
        f"`{name}`",
        row.get("count", ""),
        row.get("fo4", ""),
        row.get("levels", ""),
        gates,
        *resources,
    )


def main() -> None:
    """Replace what is between the marks of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="+", help="measured configurations")
    parser.add_argument("--page", type=Path, default=PAGE, help="file to write to")
    options = parser.parse_args()

    lines = [""]
    for name in options.configs:
        paths = [build_root() / kind / f"{name}.json" for kind in ("timing", "synth", "pnr")]
        found = [json.loads(path.read_text()) if path.exists() else {} for path in paths]
        lines += section(name, *found)
    text = options.page.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    options.page.write_text(head + BEGIN + "\n".join(lines) + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
