"""The page in a browser: it draws, finds, zooms, and shows the details of what is clicked."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor

from tpulite.arch.memory import Window
from tpulite.models import CNN_DIGITS
from tpulite.report.html import Head, Report, write_comparison, write_page
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.operator_details import describe_operators
from tpulite.report.profile import LayerProfile, profile_model
from tpulite.report.speed import Speed
from tpulite.report.traffic import Traffic
from tpulite.runtime.comparison import TensorDifference
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparison
from tpulite_testing.chromium import CHROMIUM, Page, open_page

pytestmark = [
    pytest.mark.pages,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: chromium)"),
]

DRAWN = "document.querySelector('.figure') || document.querySelector('.network')?.viewBox.baseVal"
PANEL = "document.getElementById('panel').innerText"
TIP = "document.getElementById('tip').innerText"
ROWS = "[...document.querySelectorAll('table.data tbody tr:not([hidden])')].map(x => x.innerText)"
BOX = "document.querySelector('.network').viewBox.baseVal"
TICKS = """
[...document.querySelectorAll("[data-view='timeline'] .axes text[text-anchor=middle]")]
    .map(x => x.textContent)
"""
MULTIPLIERS, VECTOR, DRAM = "#2e9e5b", "#9b5fc0", "#f0a03c"


def visit(path: Path, folder: Path, use: Callable[[Page], Coroutine]) -> np.ndarray:
    """Open a page, look at it, use it; return its pixels. It loads nothing and complains not."""

    async def look() -> tuple[bytes, list[dict]]:
        async with open_page(path, folder) as page:
            await page.until(DRAWN)
            picture = await page.picture()
            await use(page)
            return picture, page.events

    picture, events = asyncio.run(asyncio.wait_for(look(), timeout=240))
    methods = {x["method"] for x in events}
    assert not {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"} & methods
    urls = [
        x["params"]["request"]["url"] for x in events if x["method"] == "Network.requestWillBeSent"
    ]
    assert {url.split(":")[0] for url in urls if url != path.as_uri()} <= {"data"}
    return np.asarray(Image.open(BytesIO(picture)).convert("RGB"))


async def search(page: Page, text: str) -> None:
    await page.evaluate(
        "(field => {field.value = " + json.dumps(text) + "; "
        "field.dispatchEvent(new Event('input'))})(document.getElementById('search'))"
    )


async def use_panel(page: Page, model: Model, cycles: int) -> None:
    """Click on the first convolution: its details are those of the file and of the run."""
    node = model.graph.nodes[0]
    weight = model.graph.tensors[node.inputs[1]]
    assert weight.data is not None
    await page.click(f"tr[data-key={json.dumps(node.name)}]")
    await page.until(f"{PANEL}.includes({json.dumps(node.source)})")
    said = (await page.evaluate(PANEL)).replace("\t", " ")
    milliseconds = f"{cycles / 100 / 1e3:.4g} ms"
    for text in (
        *(
            node.name,
            weight.name,
            "on the accelerator",
            milliseconds,
            f"{weight.data.size:,} values",
        ),
        f"stride {node['stride'][0]}, {node['stride'][1]}",
    ):
        assert text in said, text
    assert await page.evaluate("document.querySelectorAll('#panel figure rect').length") > 10
    await page.click("#panel button")
    await page.until("document.getElementById('panel').hidden")


async def use_search(page: Page, model: Model) -> None:
    """Search narrows the table, also by the name of a tensor, and dims other operators."""
    rows = len(await page.evaluate(ROWS))
    node = model.graph.nodes[-1]
    await search(page, node.outputs[0])
    (row,) = await page.evaluate(ROWS)
    assert node.name in row
    dim = "document.querySelectorAll('.box.dim').length"
    assert await page.evaluate(dim) == len(model.graph.nodes) + 1
    await search(page, "")
    assert len(await page.evaluate(ROWS)) == rows and await page.evaluate(dim) == 0


async def use_time(page: Page, cycles: int) -> None:
    """The axis is in ms, and a click on the button makes it cycles; zooming narrows it.

    What runs on the CPU before everything else is out of sight then.
    """
    marks = "document.querySelectorAll('[data-view=timeline] .cpu').length"
    assert await page.evaluate(marks) == 1
    assert await page.evaluate("page.mhz") == 100
    ticks = await page.evaluate(TICKS)
    assert ticks[-1] == "ms"
    last = cycles / 100 / 1e3
    step = float(ticks[1]) - float(ticks[0])
    assert last - step < float(ticks[-2]) <= last
    await page.click("#unit")
    ticks = [x.replace(",", "") for x in await page.evaluate(TICKS)]
    assert ticks[-1] == "cycles"
    assert cycles - (int(ticks[1]) - int(ticks[0])) < int(ticks[-2]) <= cycles
    await page.click("[data-view='timeline'] [title='Zoom in']")
    start, end = await page.evaluate("[inView.start, inView.end]")
    assert (start, end) == (cycles / 4, cycles * 3 / 4)
    await page.until(f"{marks} == 0")


def test_the_page_draws_finds_zooms_and_shows_details(tmp_path: Path) -> None:
    model, path = Model.load(CNN_DIGITS), tmp_path / "report.html"
    profile, network = profile_model(model), NetworkGraph.of(model.plan.placed)
    details = describe_operators(model.plan.placed.graph)
    nothing = Traffic(dict.fromkeys(Window, 0), dict.fromkeys(Window, 0), 0)
    cpu = LayerProfile("PAD", "numpy", {}, 0, 0, 0, 0.0, nothing, (model.graph.nodes[-1].name,))
    mixed = replace(profile, layers=(cpu, *profile.layers))
    write_page(path, Report("profile", mixed, Speed(profile.cycles, 1, 100), network, details))
    (first,) = (x for x in profile.layers if x.name == model.graph.nodes[0].name)

    async def use(page: Page) -> None:
        await use_panel(page, model, first.cycles)
        await use_search(page, model)
        await use_time(page, profile.cycles)
        height = await page.evaluate(f"{BOX}.height")
        await page.click("[data-view='network'] [title='Zoom in']")
        assert await page.evaluate(f"{BOX}.height") < height
        phone = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        await page.send("Emulation.setDeviceMetricsOverride", **phone)
        assert await page.evaluate("document.documentElement.scrollWidth") == 400

    pixels = visit(path, tmp_path / "user", use)
    for color in (MULTIPLIERS, VECTOR, DRAM):
        assert (pixels == ImageColor.getrgb(color)).all(axis=2).sum() > 100, color


def test_a_comparison_shows_what_differs_first(tmp_path: Path) -> None:
    model, path = Model.load(CNN_DIGITS), tmp_path / "compared.html"
    names = [node.name for node in model.graph.nodes]
    same, *others = [TensorDifference(x, x, 9, 0, 0.0, None) for x in names]
    wrong = replace(others[-1], different=2, beyond=2, largest=3.0, first=(0, 7))
    comparison = Comparison("net", 1, (same, *others[1:-1], wrong))
    head = Head("net", "compare", facts={"inputs": "<none>"})
    write_comparison(path, comparison, NetworkGraph.of(model.plan.placed), {}, head)

    async def use(page: Page) -> None:
        boxes = await page.evaluate("page.views[0].boxes")
        lines = [box["line"] for box in boxes]
        assert lines == ["", "same", "", *["same"] * (len(names) - 3), "2 differ", ""]
        assert [box["alarm"] for box in boxes] == [line == "2 differ" for line in lines]
        row = (await page.evaluate(ROWS))[-1].split("\t")
        assert row[4] == "2" and "[0, 7]" in row
        await page.click(f"tr[data-key={json.dumps(names[-1])}]")
        await page.until(f"{PANEL}.includes('2 of 9 elements differ, by 3')")

    visit(path, tmp_path / "user", use)
