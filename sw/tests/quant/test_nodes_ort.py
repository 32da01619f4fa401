"""Operators as exporters write them, alone in a network: every tensor is ONNX Runtime's.

``TPULITE_SWEEP=400`` draws more cases of each.
"""

import os

import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")

from tpulite.frontend.onnx.file import RULES
from tpulite_testing.drawn.onnx_cases import OPERATORS
from tpulite_testing.drawn.onnx_nodes import NODES, node_case
from tpulite_testing.oracles.model_tensors import equals_library

CASES = max(2, int(os.environ.get("TPULITE_SWEEP", "40")) // 20)


@pytest.mark.parametrize("op", NODES)
def test_an_operator_of_a_file(tmp_path, op):
    for seed in range(CASES):
        model = equals_library(tmp_path, node_case(op, seed), "ort", 2)
        assert model.graph.nodes, f"seed {seed}"


def test_every_operator_that_is_read_is_drawn():
    drawn = {name.split(" ")[0].lower() for name in NODES}
    drawn |= {name.replace("_", "") for name in OPERATORS}
    others = {"dequantizelinear", "max", "min", "maxpool", "pow", "quantizelinear", "upsample"}
    assert {name.lower() for name in RULES} - drawn <= others
