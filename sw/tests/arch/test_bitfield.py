from enum import IntEnum

import pytest

from tpulite.arch.bitfield import Field, Layout


class Color(IntEnum):
    RED = 1
    BLUE = 2


LAYOUT = Layout(
    "Thing",
    (
        Field("count", 5, "How many.", minimum=1),
        Field("delta", 4, "How far.", signed=True),
        Field("place", 8, "Where.", multiple=4),
        Field("color", 2, "Which.", enum=Color),
    ),
)
LEGAL = {"count": 7, "delta": -3, "place": 12, "color": Color.BLUE}


def test_fields_lie_one_after_the_other():
    assert LAYOUT.width == 19
    assert LAYOUT.offsets() == {"count": 0, "delta": 5, "place": 9, "color": 17}
    assert LAYOUT.pack(**LEGAL) == 7 | (0b1101 << 5) | (12 << 9) | (2 << 17)


@pytest.mark.parametrize("delta", [-8, -1, 0, 7])
def test_unpack_inverts_pack(delta):
    values = LEGAL | {"delta": delta}
    assert LAYOUT.unpack(LAYOUT.pack(**values)) == values


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("count", 32, r"Thing.count must be in range(0, 32), not 32"),
        ("count", 0, r"Thing.count must be at least 1, not 0"),
        ("delta", 8, r"Thing.delta must be in range(-8, 8), not 8"),
        ("delta", -9, r"Thing.delta must be in range(-8, 8), not -9"),
        ("place", 6, r"Thing.place must be a multiple of 4, not 6"),
        ("color", 3, r"Thing.color must be one of [1, 2], not 3"),
    ],
)
def test_pack_refuses_an_illegal_value(name, value, text):
    with pytest.raises(ValueError, match="must") as caught:
        LAYOUT.pack(**LEGAL | {name: value})
    assert str(caught.value) == text


def test_pack_refuses_missing_and_unknown_fields():
    with pytest.raises(ValueError, match=r"\['color', 'colour'\]$"):
        LAYOUT.pack(count=1, delta=0, place=0, colour=1)


def test_unpack_checks_nothing_but_problem_does():
    values = LAYOUT.unpack(0)
    assert values == {"count": 0, "delta": 0, "place": 0, "color": 0}
    assert LAYOUT.problem(values) == "Thing.count must be at least 1, not 0"
    assert LAYOUT.problem(LEGAL) is None
