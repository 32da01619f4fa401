"""docs/operators.md is what the code says: nothing stale, nothing left out."""

import re
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")

from tpulite.quant.exactness import Exactness
from tpulite_testing.operators.conditions import Conditions
from tpulite_testing.operators.messages import Reader, matches
from tpulite_testing.operators.page import COLUMNS, LEFT, page
from tpulite_testing.operators.probe import Probe, file_names

PAGE = Path(__file__).resolve().parents[2] / "docs/operators.md"


@pytest.fixture(scope="module")
def probe():
    return Probe()


def test_the_page_is_fresh(probe):
    assert page(probe, Conditions()) == PAGE.read_text(encoding="utf-8"), "run `make docs`"


def test_what_is_left_to_others_is_nowhere_the_machines(probe):
    for name, reason in LEFT.items():
        file_format, exactness = (
            ("tflite", Exactness.LITERT_REF) if name.isupper() else ("onnx", Exactness.ORT)
        )
        assert not probe.answer(file_format, name, exactness).machine, reason


def test_every_link_leads_to_conditions():
    text = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"\(#(\w+)\)", text)) <= set(re.findall(r"^### (\w+)$", text, re.M))


@pytest.mark.parametrize("file_format", COLUMNS)
def test_conditions_explain_every_refusal(probe, file_format):
    conditions = Conditions()
    for name in file_names(file_format):
        for exactness in COLUMNS[file_format]:
            for op, reason in probe.answer(file_format, name, exactness).reasons:
                known = conditions.of_file(file_format, name, op) if op == "unsupported" else ()
                explained = conditions.explains(reason, op)
                assert explained or any(matches(reason, text) for text in known), (name, reason)


def sample(op):
    if op == "one":
        raise ValueError(f"{op} is refused")
    if op == "two":
        return other(op)
    raise ValueError("others are, too")


def other(op):
    raise ValueError(f"{op} has {len(op)} letters")


@pytest.mark.parametrize(
    ("op", "expected"),
    [("one", "one is refused"), ("two", "two has … letters"), ("x", "others are, too")],
)
def test_messages_are_those_that_an_operator_can_reach(op, expected):
    assert Reader(__name__, "ValueError").messages(sample, op) == (expected,)
