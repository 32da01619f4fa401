"""Drawn networks reach every rewrite, and docs/reached.md says which pairs of them."""

import tempfile
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.compiler.options import Options
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.drawn.layer_graphs import KINDS
from tpulite_testing.jobs import plain
from tpulite_testing.plain.draw import FAMILIES, draw_network
from tpulite_testing.reached.page import draw_all, page, unreached
from tpulite_testing.reached.trace import GRAPH_REWRITES, LAYER_REWRITES, Reached

PAGE = Path(__file__).resolve().parents[2] / "docs/reached.md"
_WITH_CASES = {"fold constants", "fold batch norm", "split lstm"}
"""Rewrites that no draw reaches: those of floats, and of recurrent networks."""


@pytest.fixture(scope="module")
def reached():
    """Plain networks, as TFLite, and graphs of layers that ``make test`` runs."""
    found = Reached()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        for seed in range(4 * len(FAMILIES)):
            plain.write_plain_file(seed, draw_network(seed), path)
            found.add_file(path, plain.machine(seed), Options(batch=plain.batch(seed)))
    for seed in range(150):
        case = random_compilation(Seeded(seed))
        found.add_layers(case.graph, case.config, case.options)
    for more in KINDS:
        for seed in range(10):
            case = random_compilation(Seeded(seed), more=more)
            found.add_layers(case.graph, case.config, case.options)
    return found


@pytest.mark.parametrize("name", LAYER_REWRITES)
def test_draws_reach_every_rewrite_of_layers(reached, name):
    assert reached.alone[name]


@pytest.mark.parametrize("name", sorted({*GRAPH_REWRITES} - _WITH_CASES))
def test_draws_reach_every_rewrite_of_files_but_those_that_have_cases(reached, name):
    assert reached.alone[name]


def test_draws_join_neighbors_that_are_joined_already(reached):
    assert reached.met["join neighbors", "join neighbors"]


def test_pairs_are_reached_or_listed(reached):
    every = (*GRAPH_REWRITES, *LAYER_REWRITES)
    listed = unreached({"all": reached})
    pairs = {tuple(sorted(pair, key=every.index)) for pair in reached.together if len({*pair}) > 1}
    assert pairs.isdisjoint(listed)
    assert len(pairs) + len(listed) == len(every) * (len(every) - 1) // 2


@pytest.mark.regress("the page takes a minute of drawn networks; the rewrites are asked above")
def test_the_page_is_fresh():
    assert page(draw_all()) == PAGE.read_text(encoding="utf-8"), (
        "run `python scripts/reached_page.py`"
    )
