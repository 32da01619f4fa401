"""Drawings whose texts, classes and attributes follow the values of a frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from xml.etree import ElementTree

Value = float | str

_GAP = 16
"""Pixels between the panels of a picture."""


class Drawing:
    """An SVG panel. Elements are bound to keys of frames; `docs/learn/learn.js` does the same.

    Bindings are attributes: ``data-t`` names the key of the text, ``data-c`` of a class beside the
    element's own, ``data-a`` an attribute and its key as ``name:key``. ``data-d`` is a sentence for
    whoever asks, in which ``{key}`` stands for a value; of several, separated by ``|``, the key in
    ``data-k`` chooses.

    Parameters
    ----------
    title : str
        What the panel shows, in a few words.
    width, height : int
        Size in pixels, before it is scaled.
    """

    def __init__(self, title: str, width: int, height: int) -> None:
        self.title, self.width, self.height = title, width, height
        self.root = ElementTree.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {width} {height}",
                "class": "panel",
                "role": "img",
                "aria-label": title,
            },
        )
        self.parent = self.root

    def add(self, tag: str, text: str | None = None, /, **attributes: Value) -> ElementTree.Element:
        """Add an element; underscores of attribute names become hyphens, ``cls`` is the class."""
        renamed = {
            ("class" if name == "cls" else name.rstrip("_").replace("_", "-")): str(value)
            for name, value in attributes.items()
        }
        element = ElementTree.SubElement(self.parent, tag, renamed)
        element.text = text
        return element

    def group(self, **attributes: Value) -> "_Group":
        """Add a group, to which elements are added within a ``with``."""
        return _Group(self, self.add("g", **attributes))

    def box(self, x: float, y: float, width: float, height: float, **attributes: Value) -> None:
        """Add a rectangle with round corners."""
        places = {"x": x, "y": y, "width": width, "height": height}
        self.add(
            "rect", rx=3, **{name: _short(value) for name, value in places.items()}, **attributes
        )

    def text(self, x: float, y: float, text: str = "", **attributes: Value) -> None:
        """Add a text; `y` is its base line."""
        self.add("text", text, x=_short(x), y=_short(y), **attributes)

    def line(self, points: str, **attributes: Value) -> None:
        """Add a path, an arrow if its class says so."""
        self.add("path", d=points, **attributes)

    def at(self, frame: Mapping[str, Value]) -> ElementTree.Element:
        """Return a copy as it looks in a frame."""
        copy = ElementTree.fromstring(self.markup())
        for element in copy.iter():
            if key := element.get("data-t"):
                element.text = str(frame[key])
            if key := element.get("data-c"):
                element.set("class", f"{element.get('class', '')} {frame[key]}".strip())
            if bound := element.get("data-a"):
                name, key = bound.split(":")
                element.set(name, str(frame[key]))
        return copy

    def markup(self) -> str:
        """Return the SVG without values."""
        return ElementTree.tostring(self.root, encoding="unicode")


class _Group:
    """Directs what is added to a drawing into a group."""

    def __init__(self, drawing: Drawing, element: ElementTree.Element) -> None:
        self.drawing, self.element = drawing, element

    def __enter__(self) -> None:
        self.outer = self.drawing.parent
        self.drawing.parent = self.element

    def __exit__(self, *_: object) -> None:
        self.drawing.parent = self.outer


@dataclass
class Scene:
    """What a page plays: panels, and the values of each frame."""

    label: str  #: Name among the scenes of a page.
    panels: list[Drawing]  #: From left to right.
    values: dict[str, list[Value]]  #: For every key its value in each frame.
    captions: list[tuple[int, str]]  #: First frame of each sentence, ascending from 0.
    shown: int  #: Frame of the picture for readers without scripts.
    unit: str = "cycle"  #: What a frame is.
    names: list[str] = field(default_factory=list)  #: Name of each frame, after the unit.
    #: A title, one number a frame, and the largest possible one.
    bars: tuple[str, Sequence[int], int] | None = None

    def frame(self, index: int) -> dict[str, Value]:
        """Return the values of a frame."""
        return {key: values[index] for key, values in self.values.items()}

    def data(self, panels: list[str]) -> dict:
        """Return what the script of the page reads; values are run-length encoded.

        Parameters
        ----------
        panels : list of str
            Markup of all panels of the page; the scene names its own by their indices.
        """
        lengths = {len(values) for values in self.values.values()}
        assert lengths == {len(self.names)}, (self.label, lengths, len(self.names))
        return {
            "label": self.label,
            "unit": self.unit,
            "names": self.names,
            "captions": self.captions,
            "bars": self.bars and dict(zip(("title", "values", "most"), self.bars, strict=True)),
            "panels": [panels.index(panel.markup()) for panel in self.panels],
            "values": {
                key: [x for value, run in groupby(values) for x in (value, len(list(run)))]
                for key, values in self.values.items()
            },
        }

    def picture(self, style: str) -> str:
        """Return the panels side by side in the frame that is shown, as a file of its own."""
        width = sum(panel.width for panel in self.panels) + _GAP * (len(self.panels) + 1)
        height = max(panel.height for panel in self.panels) + 2 * _GAP
        size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
        root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size})
        ElementTree.SubElement(root, "style").text = style
        ElementTree.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "white"})
        x = _GAP
        for panel in self.panels:
            part = panel.at(self.frame(self.shown))
            part.attrib.update(x=str(x), y=str(_GAP))
            part.attrib.update(width=str(panel.width), height=str(panel.height))
            root.append(part)
            x += panel.width + _GAP
        return (
            ElementTree.tostring(root, encoding="unicode").replace("ns0:", "").replace(":ns0", "")
        )


def _short(value: float) -> str:
    return f"{value:g}"
