"""The page in a browser: it draws, and nothing goes wrong."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor

from tpulite.models import CNN_DIGITS
from tpulite.report.html import write_page
from tpulite.report.html.style import COLORS, layer_color
from tpulite.report.profile import profile_model
from tpulite.report.speed import Speed
from tpulite.report.spending import Cause
from tpulite.runtime.model import Model

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--enable-logging=stderr", "--hide-scrollbars"),
    *("--window-size=1400,2800", "--virtual-time-budget=20000"),
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: chromium)")


def test_the_page_draws_without_a_complaint(tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "page.png"
    profile = profile_model(Model.load(CNN_DIGITS))
    write_page(page, profile, Speed(profile.cycles), {})
    words = (
        str(CHROMIUM),
        *FLAGS,
        f"--user-data-dir={tmp_path / 'user'}",
        f"--screenshot={picture}",
    )
    done = subprocess.run([*words, page.as_uri()], capture_output=True, text=True, check=True)
    said = re.findall(r':CONSOLE[^"]*"(.*)", source', done.stderr)
    assert len(said) == 2 and all("[bokeh" in line for line in said), said
    assert "setting log level" in said[0] and "document idle" in said[1]

    pixels = np.asarray(Image.open(picture).convert("RGB"))
    for color in (COLORS[Cause.MULTIPLIERS], COLORS[Cause.DRAM], layer_color(0), layer_color(1)):
        drawn = (pixels == ImageColor.getrgb(color)).all(axis=2)
        assert drawn.sum() > 100, color
