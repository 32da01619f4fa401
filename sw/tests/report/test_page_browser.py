"""The page in a browser: it draws, zooms and tells what is below the mouse."""

import asyncio
from io import BytesIO
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
from tpulite_testing.chromium import CHROMIUM, Page, open_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: chromium)")

IDLE = "window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle"
COMMANDS = "Bokeh.documents[0].get_model_by_name('commands')"
VIEW = """
(() => {
    const found = [];
    const walk = view => {
        const names = (view.model.renderers ?? []).map(x => x.data_source?.name);
        if (view.model.type == "Figure" && names.includes("commands")) found.push(view);
        (view.child_views ?? []).forEach(walk);
    };
    Object.values(Bokeh.index).forEach(walk);
    return found[0];
})()
"""
"""The timeline."""

MIDDLE = f"""
(view => {{
    const box = view.canvas_view.el.getBoundingClientRect(), frame = view.frame.bbox;
    return [box.left + frame.left + frame.width / 2, box.top + frame.top + frame.height * 0.625];
}})({VIEW})
"""
"""The middle of the track of the MXU, which is the third of four."""

RANGE = f"(range => [range.start, range.end])({VIEW}.model.x_range)"


async def visit(page: Page, cycles: int) -> bytes:
    await page.until(IDLE)
    picture = await page.picture()
    assert await page.evaluate(RANGE) == [0, cycles]
    x, y = await page.evaluate(MIDDLE)
    await page.mouse("mouseMoved", x, y)
    await page.mouse("mouseMoved", x + 1, y)
    await page.until(f"{COMMANDS}.inspected.indices.length")
    await page.mouse("mouseWheel", x, y, wheel=-300)
    await page.until(f"{RANGE}[0] > 0")
    start, end = await page.evaluate(RANGE)
    assert 0 < start < cycles / 2 < end < cycles
    return picture


def test_the_page_draws_zooms_and_tells_what_is_below_the_mouse(tmp_path: Path) -> None:
    profile, path = profile_model(Model.load(CNN_DIGITS)), tmp_path / "report.html"
    write_page(path, profile, Speed(profile.cycles), {})
    events: list[dict] = []

    async def look() -> bytes:
        async with open_page(path, tmp_path / "user") as page:
            picture = await visit(page, profile.cycles)
            events.extend(page.events)
            return picture

    picture = asyncio.run(asyncio.wait_for(look(), timeout=240))
    pixels = np.asarray(Image.open(BytesIO(picture)).convert("RGB"))
    for color in (COLORS[Cause.MULTIPLIERS], COLORS[Cause.DRAM], layer_color(0), layer_color(1)):
        assert (pixels == ImageColor.getrgb(color)).all(axis=2).sum() > 100, color
    said = [x["params"]["type"] for x in events if x["method"] == "Runtime.consoleAPICalled"]
    assert set(said) <= {"log", "info"}
    assert not {"Runtime.exceptionThrown", "Log.entryAdded"} & {x["method"] for x in events}
    urls = [
        x["params"]["request"]["url"] for x in events if x["method"] == "Network.requestWillBeSent"
    ]
    assert {url.split(":")[0] for url in urls if url != path.as_uri()} <= {"data"}
