"""Convolutions of the phases of an image become convolutions with gaps; what else stays."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.tflite.builder import ModelBuilder, schema
from tpulite.frontend.tflite.file import load_tflite
from tpulite.graph.passes.simplify import simplify
from tpulite_testing.oracles.model_tensors import equals_library


def dilated(between: str = "", crops: int = 1) -> bytes:
    """Return a file as TensorFlow writes a convolution with gaps of two."""
    model = ModelBuilder()
    rng = np.random.default_rng(3)

    def known(values):
        return model.constant(np.array(values, np.int32))

    x = model.input((1, 9, 9, 16), 0.05, -3)
    phases = model.like(x, (4, 7, 7, 16))
    inputs = [x, known([2, 2]), known([[2, 3], [2, 3]])]
    y = model.operator("SPACE_TO_BATCH_ND", inputs, [phases], options_type="SpaceToBatchNDOptions")
    if between:
        window = {"filterHeight": 1, "filterWidth": 1, "strideH": 1, "strideW": 1}
        same = model.like(x, (4, 7, 7, 16))
        y = model.operator(between, [y], [same], options_type="Pool2DOptions", **window)
    values = rng.integers(-127, 128, (8, 3, 3, 16)).astype(np.int8)
    weight = model.constant(values, np.full(8, 0.001), np.zeros(8, int))
    bias = model.constant(np.zeros(8, np.int32), np.full(8, 0.05 * 0.001), np.zeros(8, int))
    options = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    options |= {"options_type": "Conv2DOptions", "padding": schema.Padding.VALID}
    y = model.operator("CONV_2D", [y, weight, bias], [model.like(x, (4, 5, 5, 8))], **options)
    inputs = [y, known([2, 2]), known([[0, crops], [0, crops]])]
    z = model.like(x, (1, 10 - crops, 10 - crops, 8))
    model.operator("BATCH_TO_SPACE_ND", inputs, [z], options_type="BatchToSpaceNDOptions")
    return model.build(z)


def test_padding_gaps_and_crops_become_one_convolution(tmp_path):
    graph = simplify(load_tflite(dilated()))
    (node,) = graph.nodes
    assert (node.op, node["dilation"], node["padding"]) == ("conv", (2, 2), (2, 2, 2, 2))
    assert equals_library(tmp_path, dilated()).segments[0].nodes[0].op == "conv"


def test_more_cut_off_than_padded_is_cut_off_afterwards(tmp_path):
    graph = simplify(load_tflite(dilated(crops=4)))
    assert [node.op for node in graph.nodes] == ["conv", "pick"]
    equals_library(tmp_path, dilated(crops=4))


def test_other_operators_on_phases_are_left_to_the_library(tmp_path):
    model = equals_library(tmp_path, dilated("MAX_POOL_2D"))
    assert {node.op for node in model.graph.nodes} >= {"space_to_batch", "batch_to_space"}
