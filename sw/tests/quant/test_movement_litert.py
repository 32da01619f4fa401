"""Operators that move data, against LiteRT: alone and between convolutions, on the golden machine.

``TPULITE_SWEEP=400`` draws a tenth as many cases of each, ``make regress`` eight.
"""

import os

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.arch.config import Config
from tpulite.frontend.tflite.builder import ModelBuilder
from tpulite.frontend.tflite.file import load_tflite
from tpulite.quant.exactness import Exactness
from tpulite.quant.partition import MachineSegment
from tpulite.runtime.model import Model
from tpulite_testing.drawn.movement_cases import (
    MOVEMENT,
    MovementCase,
    MovementDraw,
    movement_case,
)
from tpulite_testing.oracles.litert import moved_by_litert
from tpulite_testing.quick_options import REGRESS, quick_options

CASES = max(2, int(os.environ.get("TPULITE_SWEEP", "80" if REGRESS else "20")) // 10)
CONFIGS = (Config(), Config(array_size=8), Config(ub_rows=512, acc_rows=128), Config(array_size=4))


LIBRARY = ("resize_bilinear",)
"""Operators of which LiteRT computes some cases: those that do not only move data."""


def check(case: MovementCase, exact: Exactness, config: Config) -> bool:
    """Compare all outputs; return whether the machine computes them alone."""
    model = Model.load(load_tflite(case.model), exact=exact, config=config, options=quick_options())
    results = model.run(dict(zip(model.graph.inputs, case.inputs, strict=True)))
    for name, wanted in zip(model.graph.outputs, moved_by_litert(case, exact), strict=True):
        np.testing.assert_array_equal(results.outputs[name], wanted)
    return all(isinstance(segment, MachineSegment) for segment in model.segments)


@pytest.mark.parametrize("surrounded", [False, True], ids=["alone", "surrounded"])
@pytest.mark.parametrize("op", MOVEMENT)
def test_moved_as_litert_does(op, surrounded):
    for seed in range(CASES):
        case = movement_case(op, seed, surrounded=surrounded)
        turn = CASES * ([*MOVEMENT].index(op) + surrounded) + seed  # each machine in turn
        alone = check(case, Exactness.LITERT_REF, CONFIGS[turn % len(CONFIGS)])
        assert alone or op in LIBRARY, f"seed {seed}"


@pytest.mark.parametrize("exact", [Exactness.LITERT_OPT, Exactness.LITERT_XNNPACK], ids=str)
@pytest.mark.parametrize("op", MOVEMENT)
def test_other_kernels_move_alike(op, exact):
    for seed in range(CASES // 2):
        alone = check(movement_case(op, seed), exact, Config())
        assert alone or op in LIBRARY, f"seed {seed}"


def test_most_bilinear_resizes_that_are_drawn_only_move_pixels():
    alone = [
        check(movement_case("resize_bilinear", seed), Exactness.LITERT_REF, Config())
        for seed in range(20)
    ]
    assert 10 < sum(alone) < 20


def test_many_pixels_of_one_channel_are_moved():
    """NumPy's unravel_index has wrong places of them."""
    draw = MovementDraw("many", 0, False)
    x = draw.input((1, 100, 100, 1))
    begin, size = (draw.known(each) for each in ([0, 3, 0, 0], [1, 97, 100, 1]))
    draw.add("SLICE", [x, begin, size], [(1, 97, 100, 1)], options_type="SliceOptions")
    value = draw.rng.integers(-128, 128, (1, 100, 100, 1)).astype(np.int8)
    assert check(
        MovementCase(draw.model.build(*draw.made), (value,)), Exactness.LITERT_REF, Config()
    )


def test_pixels_of_int16_go_anywhere():
    rng, model = np.random.default_rng(3), ModelBuilder("int16")
    x = model.input((1, 5, 4, 20), 0.05, 0)
    places = np.stack([0 * np.arange(7), rng.integers(0, 5, 7), rng.integers(0, 4, 7)], axis=-1)
    inputs, y = [x, model.constant(places[np.newaxis].astype(np.int32))], model.like(x, (1, 7, 20))
    model.operator("GATHER_ND", inputs, [y], options_type="GatherNdOptions")
    value = rng.integers(-(1 << 15), 1 << 15, (1, 5, 4, 20)).astype(np.int16)
    case = MovementCase(model.build(y), (value,))
    assert check(case, Exactness.LITERT_REF, Config(int16=True))
