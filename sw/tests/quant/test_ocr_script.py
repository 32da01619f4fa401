"""The script that measures what int8 costs networks that read text."""

import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("PIL", reason="Pillow is missing (pip install pillow)")
pytest.importorskip("matplotlib", reason="matplotlib is missing (pip install matplotlib)")
from tpulite.language.sentences import calibration_texts

_SCRIPT = Path(__file__).resolve().parents[3] / "scripts/ocr.py"
_NAMES = runpy.run_path(str(_SCRIPT))


def test_lines_show_their_texts_in_ink_and_the_rest_is_zero():
    drawing = _NAMES["Drawing"]
    texts, pictures = drawing(calibration_texts(), 7).lines(9)
    assert pictures.shape == (9, 3, 48, 320) and np.abs(pictures).max() <= 1
    for text, picture in zip(texts, pictures, strict=True):
        assert 2 < len(text) <= 24
        inside = (picture != 0).any(axis=(0, 1))
        assert inside[: inside.sum()].all()
        assert np.ptp(picture[0][:, inside]) > 0.8
    again = drawing(calibration_texts(), 7).lines(9)
    assert again[0] == texts and (again[1] == pictures).all()


def test_a_line_is_found_where_ink_is():
    page = _NAMES["Drawing"](calibration_texts(), 8).page()
    assert len(page.boxes) >= 3
    boxes = np.zeros((320, 320))
    for left, top, right, bottom in page.boxes:
        assert np.ptp(page.picture[0, top:bottom, left:right]) > 0.5
        boxes[top:bottom, left:right] = 1
    assert np.ptp(page.picture[0][boxes == 0]) < 0.2
    assert all(_NAMES["_is_found"](boxes, each) for each in page.boxes)
    assert not any(_NAMES["_is_found"](1 - boxes, each) for each in page.boxes)


@pytest.mark.skipif(find_spec("rapidocr_onnxruntime") is not None, reason="they are there")
def test_missing_networks_are_named_with_what_to_type():
    done = subprocess.run([sys.executable, _SCRIPT], capture_output=True, text=True, check=False)
    said = "ocr.py: the networks are missing: pip install --no-deps rapidocr-onnxruntime\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
