from functools import partial

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.files import load_graph
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import Compilation, random_compilation
from tpulite_testing.drawn.graphs import random_graph
from tpulite_testing.jobs import graphs, networks
from tpulite_testing.jobs.fewest import fewest, graph_of


def test_no_part_can_be_left_out():
    def check(parts):
        assert not {2, 7} <= set(parts)

    assert fewest(range(10), list, check) == [2, 7]


def test_another_error_is_not_the_one_that_is_searched():
    def check(parts):
        if 3 not in parts:
            raise ValueError("3 is missing")
        assert 8 not in parts

    assert fewest(range(10), list, check) == [3, 8]


def test_what_does_not_fail_has_no_smallest_case():
    with pytest.raises(ValueError, match="does not fail any more"):
        fewest(range(3), list, lambda _: None)


def test_a_tflite_network_is_cut_to_the_operator_that_fails(monkeypatch, tmp_path):
    seed = next(
        n for n in range(99) if _ops(random_graph(n, real=False, steps=8)).count("pad") == 1
    )
    real = networks.equals_library

    def wrong_pads(folder, data, **options):
        model = real(folder, data, **options)
        assert "pad" not in _ops(load_graph(folder / "net.tflite"))
        return model

    monkeypatch.setattr(networks, "equals_library", wrong_pads)
    with pytest.raises(AssertionError):
        networks.litert_network(seed)
    path = networks.smallest_litert_network(seed, tmp_path)
    assert _ops(load_graph(path)) == ["pad"]


def test_a_graph_of_nodes_reads_what_others_would_compute():
    graph = random_graph(3, real=False, steps=8)
    for node in graph.nodes:
        alone = graph_of(graph, [node])
        assert alone.outputs == node.outputs
        assert all(graph.tensors[name].data is None for name in alone.inputs)


def test_layers_that_a_faulty_machine_computes_wrongly(monkeypatch, tmp_path):
    real = Compilation.run

    def run(self, program, device, seed):
        real(self, program, device, seed)
        kinds = {type(layer).__name__ for layer in self.graph.layers}
        np.testing.assert_array_equal("Pool" in kinds, False)

    monkeypatch.setattr(Compilation, "run", run)
    fails = partial(random_compilation, most=6, largest=2000)
    monkeypatch.setattr(graphs, "random_compilation", fails)
    seed = next(n for n in range(99) if _pools(fails(Seeded(n))) == 1)
    path = graphs.smallest_graph_on_golden(seed, tmp_path)
    *_, last = path.read_text().splitlines()
    assert last.startswith("  Pool ") and path.read_text().count(" -> ") == 1


def _ops(graph) -> list[str]:
    return [node.op for node in graph.nodes]


def _pools(case: Compilation) -> int:
    return [type(layer).__name__ for layer in case.graph.layers].count("Pool")
