"""Every operator against LiteRT's three kernel sets, element by element.

The seeds are hypothesis's; ``TPULITE_SWEEP=1500`` draws so many cases of each operator and set.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.quant.exactness import Exactness
from tpulite_testing.drawn.operator_cases import OPERATORS, WINDOWS, Case, cases, draw_case
from tpulite_testing.oracles.litert import KERNELS, run_golden, run_litert

EXAMPLES = int(os.environ.get("TPULITE_SWEEP", "40"))

REFUSALS = (
    "LiteRT's vector code",  # by the number of elements, their position, and the CPU
    "no parameters give",  # a mean or sum whose rounding is not the machine's
    "has no elu",
    "depends on the CPU",  # a result of an approximated function that is nearly a half
)
"""What may be left to the host; everything else must run and be exact."""


def compare(case: Case, exactness: Exactness) -> int:
    """Return how many elements are equal: all, or 0 if the host runs it for a known reason."""
    try:
        ours = run_golden(case, exactness)
    except ValueError as error:
        assert any(reason in str(error) for reason in REFUSALS), error
        return 0
    theirs = run_litert(case, exactness)
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert (ours == theirs).all(), f"{(ours != theirs).sum()} of {ours.size} differ: {case.name}"
    return ours.size


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("exactness", KERNELS, ids=str)
def test_operator_equals_litert(op, exactness):
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**32 - 1))
    def sweep(seed):
        compare(draw_case(op, seed), exactness)

    sweep()


@pytest.mark.parametrize("op", WINDOWS)
@pytest.mark.parametrize("exactness", KERNELS, ids=str)
def test_windows_that_no_command_can_express(op, exactness):
    """Kernels, strides and dilations up to 20, and what padding follows from that."""
    ran = [compare(draw_case(op, seed, large=True), exactness) > 0 for seed in range(EXAMPLES // 4)]
    assert sum(ran) > len(ran) // 2


@pytest.mark.parametrize("op", OPERATORS)
def test_most_cases_run_on_the_machine(op):
    drawn = list(cases(20, seed=7, operators=(op,)))
    least = {"elu": 0, "sigmoid": 15, "tanh": 15, "gelu": 15, "sum": 15}.get(op, 20)
    assert sum(compare(case, Exactness.LITERT_REF) > 0 for case in drawn) >= least


@pytest.mark.parametrize(
    ("op", "seed", "exactness"),
    [("tanh", 5889, Exactness.LITERT_REF), ("elu", 5406, Exactness.LITERT_XNNPACK)],
)
def test_a_result_that_the_last_bit_decides_is_refused(op, seed, exactness):
    with pytest.raises(ValueError, match="depends on the CPU"):
        run_golden(draw_case(op, seed), exactness)


def test_cases_are_the_same_for_the_same_seed():
    first, again = (draw_case("depthwise", 12) for _ in range(2))
    assert first.model == again.model
    assert all((a == b).all() for a, b in zip(first.inputs, again.inputs, strict=True))
    assert draw_case("depthwise", 13).model != first.model


def test_cases_reach_the_ends_of_what_they_vary():
    drawn = [draw_case("conv", seed).graph for seed in range(300)]
    nodes = [graph.nodes[0] for graph in drawn]
    kernels = {size for graph in drawn for size in graph.tensors["w"].shape[1:3]}
    assert kernels == set(range(1, 8))
    assert {step for node in nodes for step in node["stride"]} == {1, 2, 3}
    assert {step for node in nodes for step in node["dilation"]} == {1, 2, 3}
    channels = {graph.tensors["x"].shape[3] for graph in drawn}
    assert min(channels) == 1
    assert max(channels) > 60
    images = [graph.tensors["x"].quantization for graph in drawn]
    zeros = {int(image.zero_point[0]) for image in images if image is not None}
    assert {-128, 127, 0, 255} <= zeros
