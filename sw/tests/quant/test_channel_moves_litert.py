"""Chains of moves of channels between convolutions: LiteRT's bits, and all on the machine."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.arch.config import Config
from tpulite.frontend.tflite.file import load_tflite
from tpulite.graph.layers import Reshape, Transpose
from tpulite.quant.exactness import Exactness
from tpulite.quant.partition import MachineSegment
from tpulite.runtime.model import Model
from tpulite_testing.drawn.channel_moves import channel_moves, network_of_moves
from tpulite_testing.drawn.movement_cases import MovementCase
from tpulite_testing.oracles.litert import moved_by_litert
from tpulite_testing.quick_options import REGRESS, quick_options

CONFIGS = (Config(), Config(array_size=8), Config(ub_rows=512, acc_rows=128), Config(array_size=4))


def check(case: MovementCase, config: Config) -> Model:
    """Compare all outputs of a network that the machine runs alone."""
    graph, exact = load_tflite(case.model), Exactness.LITERT_REF
    model = Model.load(graph, exact=exact, config=config, options=quick_options())
    results = model.run(dict(zip(model.graph.inputs, case.inputs, strict=True)))
    for name, wanted in zip(model.graph.outputs, moved_by_litert(case, exact), strict=True):
        np.testing.assert_array_equal(results.outputs[name], wanted)
    assert all(isinstance(segment, MachineSegment) for segment in model.segments)
    return model


@pytest.mark.parametrize("seed", range(80 if REGRESS else 16))
def test_drawn_chains_keep_litert_s_bits_on_the_machine(seed):
    check(channel_moves(seed), CONFIGS[seed % len(CONFIGS)])


@pytest.mark.parametrize("spelling", ["halves", "torch_halves"])
def test_a_shuffle_and_split_moves_channels_alone(spelling):
    (segment,) = check(network_of_moves(spelling), Config()).segments
    assert isinstance(segment, MachineSegment)
    assert not any(isinstance(layer, Reshape | Transpose) for layer in segment.layers.layers)
