"""Pictures of products: what their labels say, and what is gray."""

import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from tpulite.arch.config import Config
from tpulite.layouts import draw_panels, draw_tiles

_GRAY = "#c9c9c9"


def labels(svg):
    return Counter(text.text for text in ET.fromstring(svg).iterfind("{*}text"))


def gray_area(svg):
    boxes = [box for box in ET.fromstring(svg).iterfind("{*}rect") if box.get("fill") == _GRAY]
    return sum(int(box.get("width")) * int(box.get("height")) for box in boxes)


def test_each_element_has_its_index_in_the_packed_operand():
    found = labels(draw_panels(13, 4, 9))
    expected = Counter(map(str, range(13 * 4)))  # A
    expected.update(map(str, range(9 * 4)))  # B
    expected.update(map(str, range(3 * 2)))  # blocks of C
    expected.update(f"{i},{j}" for i in range(13) for j in range(4))  # ncnn's buffer
    assert expected <= found
    assert found["A has 52 elements; in ncnn's buffer of a fixed stride 96:"] == 1


def test_padding_of_tiles_is_gray_and_rows_have_none():
    svg = draw_tiles(25, 40, 20, Config())
    assert {"0", "256", "512", "768", "1024", "1280"} <= set(labels(svg))
    padding = 25 * (48 - 40) + (48 * 32 - 40 * 20) + 25 * (32 - 20)
    assert gray_area(svg) == padding * 8 * 8  # pixels of an element


def test_pictures_of_nothing_are_refused():
    for draw in (lambda: draw_tiles(1, 0, 1, Config()), lambda: draw_panels(1, 1, 0)):
        with pytest.raises(ValueError, match=r"^Extents must be at least 1, not 0$"):
            draw()
