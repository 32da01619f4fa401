"""The documentation site as `make site` has built it, opened from its folder."""

import asyncio
import re
from pathlib import Path

import pytest

from tpulite_testing.chromium import CHROMIUM, open_page

SITE = Path(__file__).resolve().parents[2] / "build/site"
DIRECTIVE = re.compile(r"--8<|\[\[\[cog|^:::", re.MULTILINE)

pytestmark = pytest.mark.pages


def test_rendered_pages_contain_no_directive():
    pages = {path: path.read_text() for path in SITE.rglob("*.html")}
    assert len(pages) > 30, "run `make site` first"
    # Comments are no text that a reader sees.
    texts = {path: re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL) for path, text in pages.items()}
    assert [path.name for path, text in texts.items() if DIRECTIVE.search(text)] == []


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: chromium)")
def test_search_works_in_a_folder(tmp_path):
    async def search() -> None:
        async with open_page(SITE / "tutorial.html", tmp_path) as page:
            await page.until("document.readyState == 'complete' && window.component$")
            await page.evaluate("document.querySelector('.md-search__input').focus()")
            await page.send("Input.insertText", text="requantize")
            await page.until("document.querySelector('.md-search-result__item a')")
            links = "[...document.querySelectorAll('.md-search-result__item a')].map(x => x.href)"
            assert any("glossary.html" in x for x in await page.evaluate(links))
            requests = [x for x in page.events if x["method"] == "Network.requestWillBeSent"]
            urls = [x["params"]["request"]["url"] for x in requests]
            assert urls and all(url.startswith(("file:", "data:")) for url in urls)

    asyncio.run(asyncio.wait_for(search(), 120))
