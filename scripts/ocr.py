"""Measure what int8 costs PP-OCRv4: networks that find, turn and read lines of text.

python scripts/ocr.py [--folder PATH] [--device NAME]

The networks are those of the package rapidocr-onnxruntime (Apache-2.0), the lines are drawn with
the fonts of matplotlib. Other texts calibrate the networks than those that are read.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from rich import box
from rich.console import Console
from rich.table import Table

import tpulite
from tpulite.atomic import write_whole
from tpulite.frontend.onnx.library import open_session
from tpulite.language.reading import TEXT, fit_picture, letters, picture_pixels, read_alphabet
from tpulite.language.sentences import calibration_texts
from tpulite.needs import require_package
from tpulite.quant.calibrate import quantize_onnx
from tpulite.runtime.model import Model

_TEXTS = Path(__file__).with_name("sentence_pairs.txt")
_PACKAGE = "rapidocr_onnxruntime"
_FONTS = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSerif-Italic", "DejaVuSansMono"),
    *("STIXGeneral", "STIXGeneralItalic", "STIXGeneralBol"),
)

_LINES, _PAGES, _CALIBRATING = 64, 8, 64
"""Lines that are read, pages on which lines are found, and samples that calibrate a network."""

_LONGEST = 24
"""Letters of a line at most, so that its picture is not squeezed."""

_HEIGHT, _WIDTH, _TURNED_WIDTH, _PAGE = 48, 320, 192, 320
"""Pixels of a line as it is read, its width as its direction is judged, and sides of a page."""

_FOUND = 0.8
"""Share of the pixels along the middle of a line that must be text."""

Run = Callable[[np.ndarray], np.ndarray]
"""Computes a network: [N, 3, H, W] to its output, float32."""


@dataclass(frozen=True)
class Page:
    """A picture of several lines, float32 [3, H, W], and where each line is, in pixels."""

    picture: np.ndarray
    boxes: Sequence[tuple[int, int, int, int]]


class Drawing:
    """Draws texts in several fonts, sizes and shades.

    Parameters
    ----------
    texts : sequence of str
        Lines show a few words in a row of these.
    seed : int
        Another one, other pictures.
    """

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        from matplotlib import get_data_path

        self._folder = Path(get_data_path(), "fonts/ttf")
        self._words = " ".join(texts).split()
        self._rng = np.random.default_rng(seed)

    def lines(self, count: int, width: int = _WIDTH) -> tuple[list[str], np.ndarray]:
        """Return texts, and their pictures as a network reads them: float32 [N, 3, 48, width]."""
        from PIL import Image, ImageDraw

        texts, pictures = [], []
        for index in range(count):
            text, font = self._text(), self._font(_FONTS[index % len(_FONTS)], 14, 40)
            left, top, right, bottom = font.getbbox(text)
            margin = int(self._rng.integers(2, 6))
            paper, ink = self._shades()
            size = int(right - left + 2 * margin), int(bottom - top + 2 * margin)
            image = Image.new("RGB", size, paper)
            ImageDraw.Draw(image).text((margin - left, margin - top), text, ink, font)
            picture, _ = fit_picture(image, _HEIGHT, width)
            texts.append(text)
            pictures.append(picture)
        return texts, np.stack(pictures)

    def page(self) -> Page:
        """Draw lines below each other, until the page is full."""
        from PIL import Image, ImageDraw

        paper, _ = self._shades()
        image = Image.new("RGB", (_PAGE, _PAGE), paper)
        boxes, y = [], int(self._rng.integers(4, 20))
        while True:
            font = self._font(str(self._rng.choice(_FONTS)), 14, 28)
            text = self._text()
            left, top, right, bottom = map(int, font.getbbox(text))
            if y + bottom >= _PAGE:
                return Page(picture_pixels(image), boxes)
            if right >= _PAGE - 8:
                continue
            x = int(self._rng.integers(4, _PAGE - right - 3))
            ink = (0, 0, 0) if paper[0] > 127 else (255, 255, 255)
            ImageDraw.Draw(image).text((x, y), text, ink, font)
            boxes.append((x + left, y + top, x + right, y + bottom))
            y += bottom + int(self._rng.integers(6, 26))

    def _text(self) -> str:
        while True:
            first, count = self._rng.integers(len(self._words) - 4), self._rng.integers(1, 5)
            text = " ".join(self._words[first : first + count])
            if 2 < len(text) <= _LONGEST:
                return text

    def _font(self, name: str, least: int, most: int):
        from PIL import ImageFont

        return ImageFont.truetype(
            self._folder / f"{name}.ttf", int(self._rng.integers(least, most))
        )

    def _shades(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Return the colors of paper and ink; a fifth is light on dark."""
        light, dark = int(self._rng.integers(200, 256)), int(self._rng.integers(0, 90))
        paper, ink = (dark, light) if self._rng.random() < 0.2 else (light, dark)
        return (paper, paper, paper), (ink, ink, ink)


def _turned(pictures: np.ndarray) -> np.ndarray:
    """Turn every second picture upside down."""
    pictures = pictures.copy()
    pictures[1::2] = pictures[1::2, :, ::-1, ::-1]
    return pictures


@dataclass(frozen=True)
class Network:
    """One of the networks, what calibrates it, and what it is tried on."""

    file: str
    what: str  #: What is counted.
    samples: np.ndarray
    inputs: np.ndarray
    count: Callable[[np.ndarray], int]  #: How many answers are right.
    total: int


def networks(folder: Path) -> Iterator[Network]:
    """Yield the three networks."""
    tried = _TEXTS.read_text().splitlines()
    file = "ch_PP-OCRv4_rec_infer.onnx"
    texts, lines = Drawing(tried, 1).lines(_LINES)
    _, samples = Drawing(calibration_texts(), 2).lines(_CALIBRATING)
    alphabet = read_alphabet(folder / file)

    def right(shares: np.ndarray) -> int:
        return sum(letters(x, alphabet) == text for x, text in zip(shares, texts, strict=True))

    yield Network(file, "lines read", samples, lines, right, _LINES)
    file = "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    _, lines = Drawing(tried, 3).lines(_LINES, _TURNED_WIDTH)
    _, samples = Drawing(calibration_texts(), 4).lines(_CALIBRATING, _TURNED_WIDTH)

    def upright(shares: np.ndarray) -> int:
        return int((shares.argmax(axis=-1) == np.arange(_LINES) % 2).sum())

    yield Network(file, "directions", _turned(samples), _turned(lines), upright, _LINES)
    drawing, other = Drawing(tried, 5), Drawing(calibration_texts(), 6)
    pages = [drawing.page() for _ in range(_PAGES)]
    samples = np.stack([other.page().picture for _ in range(_CALIBRATING // 4)])

    def found(maps: np.ndarray) -> int:
        return sum(
            _is_found(map_[0], each)
            for map_, page in zip(maps, pages, strict=True)
            for each in page.boxes
        )

    total = sum(len(page.boxes) for page in pages)
    inputs = np.stack([page.picture for page in pages])
    yield Network("ch_PP-OCRv4_det_infer.onnx", "lines found", samples, inputs, found, total)


def _is_found(map_: np.ndarray, line: tuple[int, int, int, int]) -> bool:
    """Tell whether a map [H, W] says text along the middle of a line."""
    left, top, right, bottom = line
    return bool((map_[(top + bottom) // 2, left:right] > TEXT).mean() >= _FOUND)


def fixed(path: Path, shape: Sequence[int]) -> bytes:
    """Return a file with the shape of its input."""
    model = onnx.load(path)
    for extent, value in zip(model.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        extent.dim_value = value
    return model.SerializeToString()


def float_run(data: bytes) -> Run:
    """Return the float network, as ONNX Runtime computes it."""
    session = open_session(data, "ENABLE_ALL")
    name = session.get_inputs()[0].name
    return lambda x: np.concatenate([session.run(None, {name: each[None]})[0] for each in x])


def quantized(folder: Path, network: Network, data: bytes) -> Model:
    """Return the int8 network; it is kept in a folder."""
    path = folder / f"{Path(network.file).stem}.int8.onnx"
    if not path.exists():
        print(f"quantizing {network.file}", file=sys.stderr)
        samples = list(network.samples[:, None])
        int8 = quantize_onnx(data, samples, numerics="litert-ref")
        write_whole(path, lambda to: to.write_bytes(int8))
    return Model.load(path)


def print_measured(console: Console, options: argparse.Namespace, folder: Path) -> None:
    """Measure each network and print the table."""
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for name in ("float", "int8", "cycles", "MACs", "on the machine", "crossings"):
        table.add_column(name, justify="right")
    for network in networks(folder):
        data = fixed(folder / network.file, (1, *network.inputs.shape[1:]))
        model = quantized(options.folder, network, data)
        floats = network.count(float_run(data)(network.inputs))
        output = tpulite.run(model, network.inputs, options.device).output
        table.add_row(
            f"{network.what} of {network.total}",
            str(floats),
            str(network.count(np.asarray(output))),
            f"{tpulite.profile(model).cycles:,}",
            f"{model.macs:,}",
            f"{1 - model.host_macs / model.macs:.1%}",
            str(model.crossings),
        )
    console.print(table)


def main() -> int:
    """Measure the networks and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="where int8 networks are kept")
    parser.add_argument("--device", default="golden", help="where int8 runs (golden)")
    options = parser.parse_args()
    for package, extra in (("onnxruntime", "onnx"), ("PIL", "pictures"), ("matplotlib", "study")):
        require_package(package, extra, "scripts/ocr.py")
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ValueError("the networks are missing: pip install --no-deps rapidocr-onnxruntime")
    print_measured(Console(), options, Path(spec.origin).parent / "models")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"ocr.py: {error}")
