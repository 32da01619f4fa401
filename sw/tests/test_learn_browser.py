"""The pages of docs/learn in a browser: they step, explain, fit, and load nothing."""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("markdown", reason="Markdown is missing (pip install mkdocs)")
import markdown

from tpulite_testing.chromium import CHROMIUM, Page, open_page

pytestmark = [
    pytest.mark.pages,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: chromium)"),
]

FOLDER = Path(__file__).resolve().parents[2] / "docs/learn"
PAGES = ("array", "tiles", "requantization", "depthwise", "convolution", "limits")
READY = "document.querySelector('.learn.ready')"
WIDTH = "document.documentElement.scrollWidth"
N = 4


def look(tmp_path: Path, name: str, act: Callable[[Page], Awaitable[None]]) -> None:
    """Open a page, without its theme, from a folder, and act on it."""
    folder = shutil.copytree(FOLDER, tmp_path / "learn")
    text = (folder / f"{name}.md").read_text().split("---\n", 2)[2]
    page = folder / f"{name}.html"
    head = (
        '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<style>pre, table { display: block; overflow-x: auto }</style>"  # as the theme does
    )
    page.write_text(f"{head}<article>{markdown.markdown(text, extensions=['tables'])}</article>")

    async def run() -> None:
        async with open_page(page, tmp_path / "browser") as opened:
            await opened.until(READY)
            await act(opened)

    asyncio.run(run())


async def texts(page: Page, names: list[str]) -> list[str]:
    """Return what is written at keys."""
    found = (f"document.querySelector('[data-t={name}]').textContent" for name in names)
    return await page.evaluate(f"[{', '.join(found)}]")


async def press(page: Page, label: str) -> None:
    """Press a button."""
    await page.evaluate(f"document.querySelector('button[aria-label=\"{label}\"]').click()")


def test_what_the_page_shows_is_the_product_of_what_it_shows(tmp_path):
    """Rows of A are read where they enter, W in the elements, C where it is complete."""

    async def act(page: Page) -> None:
        frames = int(await page.evaluate("document.querySelector('input[type=range]').max"))
        await press(page, "to the start")
        entered = []
        for _ in range(frames):
            row = await texts(page, [f"vector{k}" for k in range(N)])
            if all(row):
                entered.append([int(value) for value in row])
            await press(page, "step")
        weights = await texts(page, [f"w{i // N}{i % N}" for i in range(N * N)])
        keys = [f"c{i}{column}" for i in range(len(entered)) for column in range(N)]
        results = np.array(await texts(page, keys), int).reshape(-1, N)
        assert len(entered) == 6
        assert np.array_equal(results, np.array(entered) @ np.array(weights, int).reshape(N, N))

    look(tmp_path, "array", act)


def test_an_element_explains_its_sum(tmp_path):
    """Arrow keys step although nothing has the focus."""

    async def act(page: Page) -> None:
        await press(page, "to the start")
        element = "document.querySelector('[data-c=class00]')"
        await page.evaluate(f"{element}.dispatchEvent(new MouseEvent('click'))")
        told = []
        for key in ("ArrowRight",) * 4 + ("ArrowLeft",):
            await page.send("Input.dispatchKeyEvent", type="keyDown", key=key)
            told.append(await page.evaluate("document.querySelector('.details').textContent"))
        weight, x, above, total = map(int, re.findall(r"-?\d+", told[2])[2:6])
        assert weight * x + above == total
        assert "no vector is here" in told[0]
        assert told[4] == told[2]

    look(tmp_path, "array", act)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_plays_fits_and_loads_nothing(tmp_path, name):
    async def act(page: Page) -> None:
        for width in (1280, 400):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 1000}
            await page.send("Emulation.setDeviceMetricsOverride", **size)
            assert await page.evaluate(WIDTH) <= width
        scenes = await page.evaluate("document.querySelectorAll('.choice option').length")
        for scene in range(max(scenes, 1)):
            if scenes:
                choice = "document.querySelector('.choice select')"
                await page.evaluate(f"{choice}.value = {scene}")
                await page.evaluate(f"{choice}.dispatchEvent(new Event('change'))")
            await press(page, "to the start")
            speed = "document.querySelector('[aria-label=speed]')"
            await page.evaluate(f"{speed}.value = 8")
            first = await page.evaluate("document.querySelector('.place').textContent")
            await press(page, "play")
            await page.until(f"document.querySelector('.place').textContent != '{first}'")
            await press(page, "pause")
            assert await page.evaluate(WIDTH) <= 400
        events = [event for event in page.events if event["method"] != "Page.frameResized"]
        bad = ("Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
        assert not [event for event in events if event["method"] in bad]
        requests = [e for e in events if e["method"] == "Network.requestWillBeSent"]
        assert {e["params"]["request"]["url"].split(":")[0] for e in requests} == {"file"}

    look(tmp_path, name, act)


def test_without_scripts_there_is_a_picture(tmp_path):
    async def act(page: Page) -> None:
        await page.send("Emulation.setScriptExecutionDisabled", value=True)
        await page.send("Page.reload")
        await page.until("document.images.length && document.images[0].naturalWidth > 500")
        assert not await page.evaluate(f"Boolean({READY})")

    look(tmp_path, "array", act)
