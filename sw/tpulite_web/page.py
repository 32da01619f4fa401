"""The page as one file: what is written in ``page/``, and all data, in a single HTML text."""

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["page_text"]

_FOLDER = Path(__file__).with_name("page")
_SCRIPTS = ("archive.js", "network.js", "digits.js", "view.js", "main.js")
"""In the order in which they run: each may use those before it."""


def page_text(facts: dict[str, Any]) -> str:
    """Return the whole page; it needs no other file, no server and no network.

    Parameters
    ----------
    facts : dict
        Data of :func:`tpulite_web.contents.page_facts`.
    """
    parts = {
        "style": _read("style.css"),
        "version": version("tpulite"),
        # In a script, "</" would end the element.
        "facts": json.dumps(facts, separators=(",", ":")).replace("</", "<\\/"),
        "worker": _read("worker.js"),
        "script": "\n".join(_read(name) for name in _SCRIPTS),
    }
    return re.sub(r"{{(\w+)}}", lambda found: parts[found[1]], _read("index.html"))


def _read(name: str) -> str:
    return (_FOLDER / name).read_text()
