"""What a page for the browser holds, read again without a browser."""

import json
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

__all__ = ["ReadPage"]


class _Elements(HTMLParser):
    """What a page refers to, the views that it names, its text, and the JSON in it."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.views: list[str] = []
        self.records: list[str] = []
        self.text: list[str] = []
        self._into: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list) -> None:
        values = dict(attrs)
        self.references += [values[name] for name in ("src", "href") if name in values]
        if "data-view" in values:
            self.views.append(values["data-view"])
        self._into = self.text
        if tag in ("script", "style"):
            self._into = self.records if values.get("type") == "application/json" else None

    def handle_endtag(self, tag: str) -> None:
        self._into = self.text

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into.append(data)


@dataclass(frozen=True)
class ReadPage:
    """A page."""

    references: list[str]  #: What it would load.
    text: str  #: Its text outside of scripts.
    views: list[tuple[str, Any]]  #: Its figures and tables: what draws one, and its data.
    items: dict[str, dict[str, Any]]  #: What its panel shows.
    mhz: float | None  #: The clock frequency of its times.

    @classmethod
    def of(cls, path: Path) -> "ReadPage":
        """Return what a file holds."""
        elements = _Elements()
        elements.feed(path.read_text(encoding="utf-8"))
        record = json.loads("".join(elements.records))
        views = list(zip(elements.views, record["views"], strict=True))
        text = " ".join("".join(elements.text).split())
        return cls(elements.references, text, views, record["items"], record["mhz"])

    def all(self, view: str) -> list[Any]:
        """Return the data of all views of a kind."""
        return [data for name, data in self.views if name == view]

    def one(self, view: str) -> Any:
        """Return the data of the only view of a kind."""
        (data,) = self.all(view)
        return data

    def column(self, title: str) -> list[Any]:
        """Return a column of the only table."""
        table = self.one("table")
        (index,) = (i for i, x in enumerate(table["columns"]) if x["title"] == title)
        return [row[index] for row in table["rows"]]
