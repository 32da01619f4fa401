"""The page in a browser: it draws, zooms and tells what is below the mouse."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor

from tpulite.models import CNN_DIGITS
from tpulite.report.html import write_comparison, write_page
from tpulite.report.html.style import COLORS, WHERE, layer_color, lighten
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.profile import profile_model
from tpulite.report.speed import Speed
from tpulite.report.spending import Cause
from tpulite.runtime.comparison import TensorDifference
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparison
from tpulite_testing.chromium import CHROMIUM, Page, open_page

pytestmark = [
    pytest.mark.pages,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: chromium)"),
]

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

GRAPH = "Bokeh.documents[0].get_model_by_name('graph')"
FIGURE = """
(() => {
    const find = view => [view, ...(view.child_views ?? []).flatMap(find)];
    const views = Object.values(Bokeh.index).flatMap(find);
    return views.find(view => view.model.name == "drawing");
})()
"""
BOX = f"""
(view => {{
    const frame = view.canvas_view.el.getBoundingClientRect(), data = {GRAPH}.data;
    const {{x_scale, y_scale}} = view.frame;
    return [frame.left + x_scale.compute(data.x[1]), frame.top + y_scale.compute(data.y[1])];
}})({FIGURE})
"""
"""The middle of the first operator."""

TIPS = """
(() => {
    const all = root => [...root.querySelectorAll("*")].flatMap(
        x => [x, ...(x.shadowRoot ? all(x.shadowRoot) : [])]);
    return all(document).filter(x => x.className == "bk-tooltip-content").map(x => x.innerText);
})()
"""
"""What is said below the mouse."""

SCALE = f"(range => range.end - range.start)({FIGURE}.model.y_range)"
LETTERS = f"""
{FIGURE}.model.renderers.map(x => parseFloat(x.glyph?.text_font_size?.value)).filter(x => x)[0]
"""

RANGE = f"(range => [range.start, range.end])({VIEW}.model.x_range)"


async def use_timeline(page: Page, cycles: int) -> None:
    assert await page.evaluate(RANGE) == [0, cycles]
    x, y = await page.evaluate(MIDDLE)
    await page.mouse("mouseMoved", x, y)
    await page.mouse("mouseMoved", x + 1, y)
    await page.until(f"{COMMANDS}.inspected.indices.length")
    await page.mouse("mouseWheel", x, y, wheel=-300)
    await page.until(f"{RANGE}[0] > 0")
    start, end = await page.evaluate(RANGE)
    assert 0 < start < cycles / 2 < end < cycles


async def use_drawing(page: Page, said: str) -> None:
    x, y = await page.evaluate(BOX)
    await page.mouse("mouseMoved", x, y)
    await page.mouse("mouseMoved", x + 1, y)
    await page.until(f"{TIPS}.some(text => text.includes({json.dumps(said)}))")
    before, letters = await page.evaluate(SCALE), await page.evaluate(LETTERS)
    await page.mouse("mouseWheel", x, y, wheel=-300)
    await page.until(f"{SCALE} < {before}")
    after = await page.evaluate(SCALE)
    assert await page.evaluate(LETTERS) == pytest.approx(letters * before / after, rel=0.02)


def visit(path: Path, folder: Path, use: Callable[[Page], Coroutine]) -> np.ndarray:
    """Open a page, look at it, use it; return its pixels. It loads nothing and complains not."""

    async def look() -> tuple[bytes, list[dict]]:
        async with open_page(path, folder) as page:
            await page.until(IDLE)
            picture = await page.picture()
            await use(page)
            return picture, page.events

    picture, events = asyncio.run(asyncio.wait_for(look(), timeout=240))
    said = [x["params"]["type"] for x in events if x["method"] == "Runtime.consoleAPICalled"]
    assert set(said) <= {"log", "info"}
    assert not {"Runtime.exceptionThrown", "Log.entryAdded"} & {x["method"] for x in events}
    urls = [
        x["params"]["request"]["url"] for x in events if x["method"] == "Network.requestWillBeSent"
    ]
    assert {url.split(":")[0] for url in urls if url != path.as_uri()} <= {"data"}
    return np.asarray(Image.open(BytesIO(picture)).convert("RGB"))


def test_the_page_draws_zooms_and_tells_what_is_below_the_mouse(tmp_path: Path) -> None:
    model, path = Model.load(CNN_DIGITS), tmp_path / "report.html"
    profile, network = profile_model(model), NetworkGraph.of(model.plan.placed)
    write_page(path, profile, Speed(profile.cycles), network, {})

    async def use(page: Page) -> None:
        await use_drawing(page, model.graph.nodes[0].name)
        await use_timeline(page, profile.cycles)

    pixels = visit(path, tmp_path / "user", use)
    drawn = [lighten(WHERE[x]) for x in ("MXU", "VPU")]
    charts = (COLORS[Cause.MULTIPLIERS], COLORS[Cause.DRAM], layer_color(0), layer_color(1))
    for color in (*drawn, *charts):
        assert (pixels == ImageColor.getrgb(color)).all(axis=2).sum() > 100, color


def test_a_comparison_shows_what_differs_first(tmp_path: Path) -> None:
    model, path = Model.load(CNN_DIGITS), tmp_path / "compared.html"
    names = [node.name for node in model.graph.nodes]
    same, *others = [TensorDifference(x, x, 9, 0, 0.0, None) for x in names]
    wrong = replace(others[-1], different=2, beyond=2, largest=3.0, first=(0, 7))
    comparison = Comparison("net", 1, (same, *others[1:-1], wrong))
    write_comparison(path, comparison, NetworkGraph.of(model.plan.placed), {"inputs": "<none>"})

    async def use(page: Page) -> None:
        await use_drawing(page, same.name)
        lines, thick = [await page.evaluate(f"{GRAPH}.data.{x}") for x in ("line", "thick")]
        assert lines == ["", "same", "", *["same"] * (len(names) - 3), "2 differ", ""]
        assert [thick[i] > 1 for i in range(len(thick))] == [x == "2 differ" for x in lines]
        rows = await page.evaluate(f"{GRAPH.replace('graph', 'tensors')}.data")
        assert rows["different"] == [0] * (len(names) - 2) + [2] and rows["first"][-1] == "[0, 7]"

    pixels = visit(path, tmp_path / "user", use)
    for color in ("#2e9e5b", "#9a9a9a"):
        assert (pixels == ImageColor.getrgb(lighten(color))).all(axis=2).sum() > 100, color
