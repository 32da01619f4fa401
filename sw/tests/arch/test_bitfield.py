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


@pytest.mark.parametrize(
    ("field", "legal"),
    [
        (Field("plain", 3, ""), range(8)),
        (Field("least", 3, "", minimum=2), range(2, 8)),
        (Field("signed", 3, "", signed=True), range(-4, 4)),
        (Field("both", 3, "", signed=True, minimum=-2), range(-2, 4)),
        (Field("no_less", 3, "", signed=True, minimum=-9), range(-4, 4)),
        (Field("multiple", 4, "", multiple=4), range(0, 16, 4)),
        (Field("choice", 2, "", enum=Color), (Color.RED, Color.BLUE)),
        (Field("grown", 4, "", behind=1), range(16)),
    ],
    ids=lambda value: value.name if isinstance(value, Field) else None,
)
def test_a_field_and_a_layout_take_the_same_values(field, legal):
    layout = Layout("Thing", (field,))  # a new one: what a layout works out about fields, it keeps
    for value in range(-20, 20):
        assert (field.problem(value) is None) is (value in legal)
        assert (layout.problem({field.name: value}) is None) is (value in legal)
    for value in legal:
        assert layout.unpack(layout.pack(**{field.name: value})) == {field.name: value}


def test_what_a_field_has_grown_by_lies_behind_all_fields():
    layout = Layout(
        "Grown", (Field("a", 5, "", behind=2), Field("b", 3, ""), Field("c", 4, "", behind=1))
    )
    assert layout.offsets() == {"a": 0, "b": 3, "c": 6}
    assert layout.grown == {"a": 9, "c": 11}
    assert layout.pack(a=0b10_101, b=0b011, c=0b1_110) == 0b1_10_110_011_101
    for word in range(1 << 12):
        assert layout.pack(**layout.unpack(word)) == word


def test_pack_refuses_missing_and_unknown_fields():
    with pytest.raises(ValueError, match=r"\['color', 'colour'\]$"):
        LAYOUT.pack(count=1, delta=0, place=0, colour=1)


def test_unpack_checks_nothing_but_problem_does():
    values = LAYOUT.unpack(0)
    assert values == {"count": 0, "delta": 0, "place": 0, "color": 0}
    assert LAYOUT.problem(values) == "Thing.count must be at least 1, not 0"
    assert LAYOUT.problem(LEGAL) is None
