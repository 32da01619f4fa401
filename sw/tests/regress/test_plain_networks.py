"""Networks as people build them: compiled, run, and equal to the library, output by output."""

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import numpy as np

from tpulite_testing.jobs import plain
from tpulite_testing.jobs.plain import write_plain_file
from tpulite_testing.plain import check
from tpulite_testing.plain.check import run_untouched
from tpulite_testing.plain.draw import FAMILIES, draw_network
from tpulite_testing.quick_options import REGRESS

OTHERS = range(4, 40)
"""Networks of each family, which ``make regress`` runs in both formats."""


def seeds(family: str, *quick: int) -> list[int]:
    """Return networks of a family: in ``make test`` each is of one format, in turn."""
    each = OTHERS if REGRESS else quick
    return [list(FAMILIES).index(family) + len(FAMILIES) * n for n in each]


@pytest.mark.parametrize("family", FAMILIES)
def test_plain_tflite_networks_are_litert_s(family):
    for seed in seeds(family, 0, 3):
        plain.plain_tflite(seed)


@pytest.mark.parametrize("family", FAMILIES)
def test_plain_onnx_networks_are_onnx_runtime_s(family):
    for seed in seeds(family, 1, 2):
        plain.plain_onnx(seed)


def test_a_network_follows_from_its_seed(tmp_path):
    for suffix in ("onnx", "tflite"):
        files = [tmp_path / f"{name}.{suffix}" for name in "ab"]
        for path in files:
            write_plain_file(7, draw_network(7), path)
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_wrong_bit_is_found_and_cut_to_the_operators_that_make_it(tmp_path, monkeypatch):
    written = []

    def write(seed, network, path):
        written.append([step.kind for step in network.steps])
        write_plain_file(seed, network, path)

    def wrong_sums(path, inputs):
        outputs = run_untouched(path, inputs)
        return [y + np.ones_like(y) for y in outputs] if "add" in written[-1] else outputs

    monkeypatch.setattr(plain, "write_plain_file", write)
    monkeypatch.setattr(check, "run_untouched", wrong_sums)
    seed = seeds("resnet", 0)[0]
    with pytest.raises(AssertionError, match=r"elements of .* differ"):
        plain.plain_tflite(seed)
    assert plain.smallest_plain_tflite(seed, tmp_path).exists() and written[-1] == ["add"]
