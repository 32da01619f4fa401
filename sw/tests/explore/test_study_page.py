"""The page of a study, read again with Bokeh, and looked at in a browser."""

import asyncio
import json
import re
from html import unescape
from pathlib import Path

import pytest
from bokeh.document import Document
from bokeh.models import ColumnDataSource, Div

from tpulite.arch.config import Config
from tpulite.explore.limits import Limits
from tpulite.explore.measure import Counts, Outcome
from tpulite.explore.page import write_study
from tpulite.explore.point import Point, pareto
from tpulite_testing.chromium import CHROMIUM, open_page

OBJECTIVES = ("cycles", "area", "buffer")


def point(cycles: int, size: int, rows: int) -> Point:
    counts = Counts(cycles=cycles, array_steps=1)
    config = Config(array_size=size, ub_rows=rows)
    return Point({"array_size": size, "ub_rows": rows}, config, {"n<t": Outcome(counts)})


POINTS = [
    point(9000, 4, 1024),
    point(3000, 8, 1024),
    point(3100, 8, 2048),
    point(900, 16, 1024),
    Point({"array_size": 5, "ub_rows": 1024}, None, {}, "array_size must be another"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.html"
    limits = Limits(max_lut=60_000)
    best = pareto([x for x in POINTS if not limits.broken(x)], OBJECTIVES)
    write_study(path, POINTS, best, limits, OBJECTIVES, "take <this> one")
    return path


def test_a_page_has_every_point_and_loads_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (record,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S)
    assert not re.search(r"https?://", record) and not re.search(
        r"<(script|link)[^>]+(src|href)=", text
    )
    (each,) = json.loads(unescape(record)).values()
    document = Document.from_json(each)
    (head,) = document.select({"type": Div, "name": "head"})
    assert "n&lt;t" in head.text and "take &lt;this&gt; one" in head.text
    sources = {x.name: dict(x.data) for x in document.select({"type": ColumnDataSource})}
    assert list(sources["points"]["is"]) == [
        *("best", "best", "beaten", "more than 60,000 LUT", "array_size must be another")
    ]
    assert list(sources["points"]["cycles"]) == [9000, 3000, 3100, 900, None]
    assert list(sources["cycles by area: best"]["y"]) == [9000, 3000]
    assert list(sources["cycles by buffer: exceeds a limit"]["y"]) == [900]


@pytest.mark.pages
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: chromium)")
def test_a_browser_draws_it(path: Path, tmp_path: Path) -> None:
    async def look() -> list[dict]:
        async with open_page(path, tmp_path) as page:
            await page.until("window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle")
            assert await page.picture()
            return page.events

    events = asyncio.run(asyncio.wait_for(look(), timeout=240))
    assert not {"Runtime.exceptionThrown", "Log.entryAdded"} & {x["method"] for x in events}
