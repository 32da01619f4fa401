"""Operators against ONNX Runtime's quantized kernels, element by element.

Convolutions have one zero point for all weights, as ours do. ``TPULITE_SWEEP=1500`` draws so many
cases of each operator.
"""

import os
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.litert import UndecidedError
from tpulite.quant.exactness.ort import ort_table
from tpulite.quant.exactness.real import APPROXIMATED
from tpulite.quant.tensors import Quantized
from tpulite_testing.drawn.onnx_cases import OPERATORS, draw_onnx_case, run_ort
from tpulite_testing.graphs.lowered import lower_graph
from tpulite_testing.oracles.litert import run_golden

EXAMPLES = int(os.environ.get("TPULITE_SWEEP", "40"))
REFUSALS = {
    "mul": "no parameters give",
    "batch_norm": "no parameters give|overflows int32",
    **dict.fromkeys(APPROXIMATED, "depends on the CPU"),
}


@pytest.mark.parametrize("op", OPERATORS)
def test_operator_equals_onnx_runtime(op):
    refused = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**32 - 1))
    def sweep(seed):
        case, model = draw_onnx_case(op, seed)
        try:
            ours = run_golden(case, Exactness.ORT)
        except ValueError as error:
            assert op in REFUSALS, error
            assert re.search(REFUSALS[op], str(error)), error
            refused.append(seed)
            return
        theirs = run_ort(case, model)
        assert ours.dtype == theirs.dtype
        assert (ours == theirs).all(), f"{(ours != theirs).sum()} of {ours.size}: {case.name}"

    sweep()
    assert len(refused) <= EXAMPLES / 2


@pytest.mark.parametrize("op", ["add", "sub", "average_pool"])
def test_chains_of_floats_are_left_to_the_host(op):
    from tpulite_testing.drawn.operator_cases import draw_case

    with pytest.raises(ValueError, match="ONNX Runtime"):
        lower_graph(draw_case(op, 3).graph, Exactness.ORT)


def test_a_difference_of_nearly_equal_numbers_is_refused():
    case, _ = draw_onnx_case("elu", 5296)
    with pytest.raises(ValueError, match="depends on the CPU"):
        run_golden(case, Exactness.ORT)


def test_the_last_bit_of_a_function_is_not_taken_for_the_librarys():
    """ONNX Runtime has -1.0763472 of -2.1546, which is -1 step of the output, and not -2."""
    x, y = Quantized(np.float32(0.0171), 0, False), Quantized(np.float32(0.7175649), 0, False)
    with pytest.raises(UndecidedError, match="depends on the CPU"):
        ort_table("celu", x, y, {"alpha": 1.35})
