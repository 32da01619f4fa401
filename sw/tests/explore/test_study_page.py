"""The page of a study, read again, and looked at in a browser."""

import asyncio
from pathlib import Path

import pytest

from tpulite.arch.config import Config
from tpulite.explore.limits import Limits
from tpulite.explore.measure import Counts, Outcome
from tpulite.explore.page import Shown, write_study
from tpulite.explore.point import Point, pareto
from tpulite_testing.chromium import CHROMIUM, open_page
from tpulite_testing.page_reader import ReadPage

OBJECTIVES = ("cycles", "area", "buffer")


def point(cycles: int, size: int, rows: int) -> Point:
    counts = Counts(cycles=cycles, array_steps=1)
    config = Config(array_size=size, ub_rows=rows)
    return Point({"array_size": size, "ub_rows": rows}, config, {"n<t": Outcome(counts)})


POINTS = [
    point(9000, 4, 1024),
    point(3000, 8, 1024),
    point(3100, 8, 16384),
    point(900, 16, 1024),
    Point({"array_size": 5, "ub_rows": 1024}, None, {}, "array_size must be another"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.html"
    limits = Limits(max_lut=60_000)
    best = pareto([x for x in POINTS if not limits.broken(x)], OBJECTIVES)
    write_study(path, Shown(POINTS, best, limits, OBJECTIVES, "take <this> one"))
    return path


def test_a_page_has_every_point_and_loads_nothing(path: Path) -> None:
    page = ReadPage.of(path)
    assert page.references == [] and "n<t" in page.text and "take <this> one" in page.text
    assert page.column("") == [
        *("Pareto front", "Pareto front", "dominated"),
        *("more than 60,000 LUT", "array_size must be another"),
    ]
    assert page.column("cycles of a run") == [9000, 3000, 3100, 900, None]
    first, second = page.all("scatter")
    front = [x["y"] for x in first["points"] if x["kind"] == "Pareto front"]
    assert front == [9000, 3000]
    (excluded,) = (x for x in second["points"] if x["kind"] == "exceeds a limit")
    assert excluded["y"] == 900
    assert dict(page.items["1"]["facts"])["cycles of n<t"] == "3,000"


def test_the_line_is_the_front_of_the_two_objectives_of_a_figure(path: Path) -> None:
    for data, other in zip(ReadPage.of(path).all("scatter"), OBJECTIVES[1:], strict=True):
        (line,) = data["lines"]
        assert line["points"] == [
            [POINTS[i].objective(other), POINTS[i].objective("cycles")] for i in (0, 1)
        ]


def test_an_axis_is_logarithmic_if_its_values_are_far_apart(path: Path) -> None:
    across, up = ReadPage.of(path).all("scatter")[0]["axes"]
    assert up["log"] and up["title"] == "cycles of a run, log scale"
    assert not across["log"] and across["title"] == "area, LUT (estimate)"


@pytest.mark.pages
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: chromium)")
def test_a_browser_draws_it(path: Path, tmp_path: Path) -> None:
    async def look() -> list[dict]:
        async with open_page(path, tmp_path) as page:
            await page.until("document.querySelectorAll('circle').length == 8")
            cells = (
                "[...document.querySelectorAll('tr[data-key=\\'2\\'] td')].map(x => x.innerText)"
            )
            assert (await page.evaluate(cells))[:4] == ["dominated", "8", "16,384", "3,100"]
            await page.click("circle[data-key='1']")
            await page.until("document.getElementById('panel').innerText.includes('3,000')")
            return page.events

    events = asyncio.run(asyncio.wait_for(look(), timeout=240))
    assert not {"Runtime.exceptionThrown", "Log.entryAdded"} & {x["method"] for x in events}
