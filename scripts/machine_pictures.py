"""Draw the figures of docs/architecture.md; sizes are those of the default machine.

python scripts/machine_pictures.py [--check]
"""

import argparse
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from generated import write_or_compare
from tpulite.arch.config import BEAT_BYTES, Config

ROOT = Path(__file__).resolve().parents[1]
CONFIG = Config()
N = CONFIG.array_size

WIDTH = 440
"""Units of a figure, so that text of 11 to 13 units is legible on a screen of 400 pixels."""

SHOWN = 520
"""Pixels of a figure where there is room."""

STYLE = """
.box { fill: #fff; stroke: #444 } .eng { fill: #e8f0fb; stroke: #2b5fa8 }
.mem { fill: #eef6e6; stroke: #4c7a22 }
.frame { fill: #fafafa; stroke: #999; stroke-dasharray: 4 3 }
.w { stroke: #444; fill: none; stroke-width: 1.4; marker-end: url(#a) }
.ww { stroke: #444; fill: none; stroke-width: 1.4; marker-end: url(#a); marker-start: url(#a) }
.cmd { stroke: #a2521b; fill: none; stroke-width: 1.4; marker-end: url(#b) }
text { text-anchor: middle } .s { font-size: 11px; fill: #555 } .c { font-weight: bold }
.l { text-anchor: start } .e { text-anchor: end } .k { fill: #a2521b }
"""


class Figure:
    """Boxes, arrows and labels of one SVG file."""

    def __init__(self, height: int, title: str) -> None:
        self.height, self.title, self.parts = height, title, list[str]()

    def box(self, place: tuple[int, int, int, int], kind: str, title: str, *lines: str) -> None:
        """Add a box (x, y, width, height) with a title and smaller lines below it."""
        x, y, width, height = place
        self.parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>'
        )
        first = y + height / 2 + 4 - 7.5 * len(lines)
        self.label(x + width / 2, first, title, "c")
        for index, line in enumerate(lines):
            self.label(x + width / 2, first + 15 * (index + 1), line, "s")

    def label(self, x: float, y: float, text: str, kind: str = "s") -> None:
        """Add a line of text; its anchor is the middle, the start (``l``) or the end (``e``)."""
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>')

    def arrow(self, path: str, kind: str = "w") -> None:
        """Add an arrow along an SVG path; kind ``ww`` has two heads, ``cmd`` carries commands."""
        self.parts.append(f'<path class="{kind}" d="{path}"/>')

    def svg(self) -> str:
        """Return the file's text."""
        heads = "".join(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
            f'markerHeight="6" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{color}"/>'
            "</marker>"
            for name, color in (("a", "#444"), ("b", "#a2521b"))
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{SHOWN}" height="{self.height * SHOWN // WIDTH}" role="img" '
            'font-family="Helvetica, Arial, sans-serif" font-size="12.5">\n'
            f"<title>{escape(self.title)}</title>\n<defs>{heads}<style>{STYLE}</style></defs>\n"
            f'<rect width="{WIDTH}" height="{self.height}" fill="#fff"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def machine() -> Figure:
    """Return the whole chip: commands, engines, and the memories between which data moves."""
    figure = Figure(500, "The chip between its host and DRAM")
    figure.parts.append('<rect class="frame" x="92" y="8" width="342" height="484" rx="8"/>')
    figure.box((6, 26, 68, 56), "box", "host")
    figure.box((6, 180, 68, 286), "mem", "DRAM", "AXI4", f"{8 * BEAT_BYTES} bits")
    figure.box((116, 26, 92, 56), "box", "registers", "AXI4-Lite, irq")
    figure.box(
        (240, 20, 182, 68),
        "box",
        "command processor",
        "fetch, dispatch, 4 queues,",
        "16 token counters",
    )
    figure.arrow("M74 54H116", "ww")
    figure.arrow("M208 54H240", "ww")

    figure.box((116, 190, 84, 66), "eng", "LOAD", f"{CONFIG.dma_bursts} bursts", "outstanding")
    figure.box((116, 390, 84, 66), "eng", "STORE", "byte strobes")
    buffer = f"{CONFIG.ub_rows:,} rows"
    banks = f"{CONFIG.ub_banks} banks"
    figure.box((228, 180, 78, 286), "mem", "unified", "buffer", buffer, f"x {N} bytes", banks)
    figure.box(
        (336, 180, 86, 150),
        "eng",
        "MXU",
        f"{N} x {N} array",
        "accumulators",
        f"{CONFIG.acc_rows:,} rows",
        "requantizers",
    )
    figure.box((336, 390, 86, 66), "eng", "VPU", "elementwise,", "pooling, tables")
    figure.arrow("M74 223H116")
    figure.arrow("M116 423H74")
    figure.arrow("M200 223H228")
    figure.arrow("M228 423H200")
    for y, text in ((212, "x"), (240, "w"), (268, "rec")):
        figure.arrow(f"M306 {y}H336")
        figure.label(320, y - 4, text)
    figure.arrow("M336 306H306")
    figure.label(320, 302, "y")
    figure.arrow("M306 412H336")
    figure.arrow("M336 436H306")
    figure.arrow("M379 390V330", "ww")
    figure.label(384, 358, "shared", "s l")
    figure.label(384, 371, "lanes", "s l")

    figure.arrow("M40 180V112H262V88", "cmd")
    figure.label(150, 106, "commands, fetched", "s k")
    figure.arrow("M379 88V180", "cmd")
    for path in ("M379 138H158V190", "M214 138V373H158V390", "M379 138H428V423H422"):
        figure.arrow(path, "cmd")
    figure.label(290, 132, "commands and tokens", "s k")
    return figure


def matrix_unit() -> Figure:
    """Return the data path of the matrix unit, from the buffer's ports back to the buffer."""
    figure = Figure(512, "The matrix unit: from the unified buffer through the array and back")
    figure.box((8, 8, 424, 34), "mem", "unified buffer: read ports")
    figure.box((6, 78, 132, 60), "box", "vector sequencer", "taps, strides, padding")
    figure.box((152, 78, 136, 60), "box", "weight sequencer", "FIFO of 2 tiles", "minus zero point")
    figure.box((304, 78, 128, 60), "box", "record loader", "FIFO of 4 blocks")
    for x, name in ((72, "activations"), (220, "weights"), (368, "records")):
        figure.arrow(f"M{x} 42V78")
        figure.label(x + 6, 64, name, "s l")
    figure.box((8, 186, 128, 50), "box", "skew", "row i: i cycles later")
    figure.arrow("M72 138V186")
    figure.box(
        (172, 176, 96, 96), "eng", f"{N} x {N}", f"{N * N} MACs", "2 weights each:", "next, current"
    )
    figure.arrow("M136 211H172")
    figure.arrow("M220 138V176")
    figure.label(226, 160, "a row per cycle", "s l")
    figure.box((172, 306, 96, 40), "box", "deskew")
    figure.arrow("M220 272V306")
    figure.label(226, 294, "partial sums", "s l")
    figure.box(
        (142, 380, 156, 50), "mem", "accumulators", f"{CONFIG.acc_rows:,} rows of {N} x int32"
    )
    figure.arrow("M220 346V380")
    figure.box(
        (318, 264, 114, 146),
        "eng",
        "drain path",
        "+ bias",
        "x multiplier",
        "round",
        "+ zero point",
        "clamp",
    )
    figure.arrow("M368 138V264")
    figure.label(362, 200, "shadow, then", "s e")
    figure.label(362, 214, "active registers", "s e")
    figure.arrow("M298 400H318")
    figure.box((8, 470, 424, 34), "mem", "unified buffer: drain port")
    figure.arrow("M375 410V470")
    figure.label(290, 456, f"{N} int8 a cycle", "s")
    return figure


FIGURES = {"machine.svg": machine, "matrix-unit.svg": matrix_unit}


def main() -> int:
    """Write the figures, or compare them with those that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    files = {f"docs/{name}": draw().svg() for name, draw in FIGURES.items()}
    source = "what scripts/machine_pictures.py draws"
    return write_or_compare(ROOT, files, check=parser.parse_args().check, source=source)


if __name__ == "__main__":
    sys.exit(main())
