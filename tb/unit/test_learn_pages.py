"""What the pages of docs/learn play is what the RTL does, and equals plain arithmetic."""

import json
import sys
from itertools import product, takewhile
from pathlib import Path

import numpy as np
import pytest

from tpulite.report.spending import Cause

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/learn"
sys.path.append(str(ROOT / "scripts"))  # behind packages that are called like a script

import learn_pages  # noqa: E402 - scripts are no package
from learn import depthwise_scene, examples  # noqa: E402
from learn.requantizer_scene import CASES  # noqa: E402


class Played:
    """A scene as the page reads it."""

    def __init__(self, page: str, index: int = 0) -> None:
        text = (FOLDER / f"{page}.js").read_text()
        self.scene = json.loads(text[text.index("{") : text.rindex(")")])["scenes"][index]
        self.length = len(self.scene["names"])

    def __getitem__(self, key: str) -> list:
        """Return the values of a key, frame by frame."""
        runs = self.scene["values"][key]
        return [x for x, n in zip(runs[::2], runs[1::2], strict=True) for _ in range(n)]


def test_the_pages_play_what_the_rtl_does():
    style = (FOLDER / "drawing.css").read_text()
    made = learn_pages.files(style)
    stale = [name for name, text in made.items() if (FOLDER / name).read_text() != text]
    assert not stale, "run `make docs` and commit it"


def test_a_stale_page_is_named(monkeypatch, capsys):
    monkeypatch.setattr(learn_pages, "files", lambda style: {"array.js": "old"})
    monkeypatch.setattr(sys, "argv", ["learn_pages.py", "--check"])
    assert learn_pages.main() == 1
    message = "docs/learn/array.js is not what the RTL does now: run `make docs` and commit it\n"
    assert capsys.readouterr().out == message


@pytest.mark.parametrize(("page", "index", "name"), [("tiles", 0, "tiles"), ("tiles", 1, "vector")])
def test_elements_multiply_and_add(page, index, name):
    played, work = Played(page, index), examples.PRODUCTS[name]
    a, w = work.a.astype(int), work.w.astype(int)
    busy = 0
    for row, column in product(range(4), repeat=2):
        at = f"{row}{column}"
        keys = ("busy", "w", "x", "in", "sum", "who")
        for works, weight, x, above, total, who in zip(
            *(played[f"{key}{at}"] for key in keys), strict=True
        ):
            if not works:
                continue
            line, tile = (int(word) for word in who.split() if word.isdigit())
            first, here = 4 * tile, 4 * tile + row
            assert (weight, x) == (w[here, column], a[line, here])
            assert above == a[line, first:here] @ w[first:here, column]
            assert total == above + weight * x
            busy += 1
    assert busy == a.shape[0] * a.shape[1] * 4


def test_a_product_is_that_of_numpy():
    played, work = Played("array"), examples.PRODUCTS["plain"]
    wanted = work.a.astype(int) @ work.w.astype(int)
    found = [[played[f"c{i}{column}"][-1] for column in range(4)] for i in range(len(wanted))]
    assert np.array_equal(found, wanted)


def test_results_of_tiles_are_rounded_to_the_nearest():
    """No sum of the example is a tie."""
    work = examples.PRODUCTS["tiles"]
    sums = work.a.astype(int) @ work.w.astype(int) + [each["bias"] for each in examples.RECORDS]
    wanted = np.clip(np.rint(sums * examples.SCALE) - 8, -128, 127).astype(int)
    played = Played("tiles")
    found = [[played[f"result{i}{column}"][-1] for column in range(4)] for i in range(len(wanted))]
    assert np.array_equal(found, wanted)


def test_a_convolution_is_that_of_plain_loops():
    image = np.pad(examples.IMAGE.astype(int), ((1, 1), (1, 1), (0, 0)))
    played = Played("convolution")
    for oy, ox, channel in product(range(3), range(3), range(4)):
        window = image[oy : oy + 3, ox : ox + 3]
        wanted = (window * examples.KERNEL[..., channel].astype(int)).sum()
        assert played[f"acc{3 * oy + ox}{channel}"][-1] == wanted


@pytest.mark.parametrize(("index", "channel"), [(0, 0), (1, 1), (2, 15)])
def test_a_depthwise_convolution_is_that_of_plain_loops(index, channel):
    image = np.pad(depthwise_scene.IMAGE[..., channel].astype(int), 1)
    kernel = depthwise_scene.KERNEL[..., channel].astype(int)
    played = Played("depthwise", index)
    for oy, ox in product(range(3), range(4)):
        wanted = (image[oy : oy + 3, ox : ox + 3] * kernel).sum()
        assert played[f"out{oy}{ox}"][-1] == wanted


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("an ordinary sum", (43, 43, 43, 43, 43)),  # 51.4349 - 8
        ("ReLU clamps", (-8, -8, -8, -8, -8)),
        ("a tie below zero", (-2, -1, -1, -2, -2)),  # -1.5
        ("a tie above zero", (3, 3, 3, 2, 3)),  # 2.5
        ("rounded twice", (6, 6, 5, 5, 5)),  # 5.27
    ],
)
def test_roundings_round_as_the_page_says(label, wanted):
    index = [case.label for case in CASES].index(label)
    played = Played("requantization", index)
    names = ("TFLITE", "RUY", "SINGLE", "FLOAT32", "AWAY")
    assert tuple(played[f"result_{name}"][-1] for name in names) == wanted


def test_the_page_on_limits_has_a_row_for_each_cause_of_profile():
    lines = (FOLDER / "limits.md").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| bound by |")) + 2
    rows = [line.split("|")[1].strip() for line in takewhile(str.strip, lines[first:])]
    assert sorted(rows) == sorted(Cause)
