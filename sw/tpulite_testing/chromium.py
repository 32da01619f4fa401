"""A page in a headless Chromium, spoken to by its debugging protocol."""

import asyncio
import base64
import itertools
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tornado.websocket import WebSocketClientConnection, websocket_connect

__all__ = ["CHROMIUM", "Page", "open_page"]

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
"""Debian's, or what hosted machines have instead, if either is there."""

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--remote-debugging-port=0", "--window-size=1400,2800"),
)


class Page:
    """An open page.

    Attributes
    ----------
    events : list of dict
        What the browser said by itself: requests, messages of the console.
    """

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count()
        self.events: list[dict[str, Any]] = []

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; return its result."""
        number = next(self._numbers)
        request = {"id": number, "method": method, "params": parameters}
        await self._socket.write_message(json.dumps(request))
        while True:
            message = json.loads(await self._socket.read_message() or "{}")
            if message.get("id") == number:
                return message["result"]
            self.events.append(message)

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        while not await self.evaluate(f"Boolean({expression})"):
            await asyncio.sleep(0.05)

    async def click(self, element: str) -> None:
        """Click into the middle of the first element with a CSS selector, once it is in view."""
        found = f"document.querySelector({json.dumps(element)})"
        await self.evaluate(f"{found}.scrollIntoView({{block: 'center'}})")
        box = f"(box => [box.x + box.width / 2, box.y + box.height / 2])({found}"
        x, y = await self.evaluate(f"{box}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            button = {"button": "left", "clickCount": 1}
            await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    async def picture(self) -> bytes:
        """Return what is to be seen as PNG."""
        return base64.b64decode((await self.send("Page.captureScreenshot"))["data"])


@asynccontextmanager
async def open_page(path: Path, folder: Path) -> AsyncIterator[Page]:
    """Open a file in a browser that keeps its own files in a folder."""
    words = [str(CHROMIUM), *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as browser:
        assert browser.stderr is not None
        try:
            (line,) = itertools.islice((x for x in browser.stderr if "listening on" in x), 1)
            address = line.split()[-1].split("/")[2]
            with urlopen(f"http://{address}/json") as file:
                tabs = json.load(file)
            (url,) = [tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"]
            socket = await websocket_connect(url, max_message_size=1 << 28)
            page = Page(socket)
            for domain in ("Runtime", "Log", "Network", "Page"):
                await page.send(f"{domain}.enable")
            await page.send("Page.navigate", url=path.as_uri())
            try:
                yield page
            finally:
                socket.close()
                while await socket.read_message() is not None:
                    pass  # until it is closed
        finally:
            browser.terminate()
            browser.stderr.read()
