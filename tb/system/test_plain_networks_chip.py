"""Networks as people build them, from their files to outputs on the Verilated chip."""

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite_tb.machines import DEFAULT
from tpulite_testing.jobs.plain import run_plain_network
from tpulite_testing.plain.draw import FAMILIES
from tpulite_testing.regress import breadth

OTHERS = [family for family in FAMILIES if family != "siamese"]


@pytest.mark.parametrize(
    "family", ["siamese", *breadth("minutes; the golden machine runs them all", *OTHERS)]
)
@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_plain_networks_on_the_chip(family, suffix):
    seed = list(FAMILIES).index(family)
    assert run_plain_network(seed, suffix, DEFAULT, "rtl")["elements"]
