"""Softmax over two channels: a table of their difference where that is exact, to LiteRT's bits."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.arch.config import Config
from tpulite.configs import named_config
from tpulite.graph.layers import Lut, Softmax
from tpulite.quant.exactness import Exactness
from tpulite.runtime.host.libraries import open_library
from tpulite.runtime.model import Model
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.quick_options import quick_options

SHARE = 1 / 256, -128
"""Scale and zero point that TFLite gives shares."""


@pytest.mark.parametrize(("scale", "beta"), [(0.05, 1), (0.3, 1), (0.02, 4)])
def test_all_pairs_of_bytes_are_looked_up(scale, beta, tmp_path):
    compare_all_pairs(scale, beta, Lut, tmp_path)


def test_machines_without_softmax_look_pairs_up(tmp_path):
    compare_all_pairs(0.05, 1, Lut, tmp_path, named_config("4x4"))


def test_scores_that_8_bits_cannot_subtract_stay(tmp_path):
    """The shares of scores that are 128 apart are not yet those of the largest difference."""
    compare_all_pairs(0.02, 1, Softmax, tmp_path)


def compare_all_pairs(
    scale: float, beta: float, kind: type, directory: Path, config: Config | None = None
) -> None:
    scores = np.arange(-128, 128).astype(np.int8)
    pairs = np.stack(np.meshgrid(scores, scores), axis=2)[np.newaxis]
    b = Builder()
    shares = b.tensor(pairs.shape, *SHARE)
    x = b.input(pairs.shape, scale, 5)
    b.operator("SOFTMAX", [x], [shares], options_type="SoftmaxOptions", beta=float(beta))
    same = np.eye(2, dtype=np.int8)[:, np.newaxis, np.newaxis]
    scales = {"weight_scale": 1.0, "scale": SHARE[0], "zero_point": SHARE[1]}
    data = b.build(b.conv(shares, same, [0, 0], **scales))
    (directory / "net.tflite").write_bytes(data)
    model = Model.load(directory / "net.tflite", config=config, options=quick_options())
    kinds = [type(layer) for layers in model.layers for layer in layers.layers]
    assert {Lut, Softmax} & set(kinds) == {kind}
    (expected,) = open_library(data, "tflite", Exactness.LITERT_REF)([pairs])
    (ours,) = model.run(dict.fromkeys(model.graph.inputs, pairs)).outputs.values()
    np.testing.assert_array_equal(ours, expected)
