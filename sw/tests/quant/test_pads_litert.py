"""PAD and PADV2 of any axes: on the machine, with the bits of LiteRT."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.tflite.file import load_tflite
from tpulite.graph.passes.simplify import simplify
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.oracles.model_tensors import equals_library

RNG = np.random.default_rng(12)


def padded(b: Builder, x: int, around, value: int | None = None) -> int:
    """Add a pad of any axes."""
    shape = tuple(n + sum(pair) for n, pair in zip(b.shape(x), around, strict=True))
    inputs = [x, b.constant(np.array(around, np.int32))]
    code, options = "PAD", "PadOptions"
    if value is not None:
        code, options = "PADV2", "PadV2Options"
        inputs.append(b.constant(np.array(value, np.int8), 0.05, -3))
    return b.operator(code, inputs, [b.like(x, shape)], options_type=options)


FORMS = {
    "steps, causal": ((1, 12, 16), ((0, 0), (4, 0), (0, 0))),
    "steps and channels": ((1, 12, 8), ((0, 0), (1, 2), (3, 5))),
    "features": ((1, 20), ((0, 0), (4, 8))),
    "channels": ((1, 5, 6, 8), ((0, 0), (0, 0), (0, 0), (0, 8))),
    "all but the batch": ((1, 5, 6, 8), ((0, 0), (1, 0), (0, 2), (4, 4))),
    "rows and columns": ((1, 5, 6, 8), ((0, 0), (1, 1), (1, 1), (0, 0))),
}


@pytest.mark.parametrize("value", [None, 17])
@pytest.mark.parametrize("form", FORMS)
def test_pads_of_any_axes_are_the_machines(tmp_path, form, value):
    shape, around = FORMS[form]
    b = Builder()
    y = padded(b, b.input(shape, 0.05, -3), around, value)
    model = equals_library(tmp_path, b.build(y))
    assert {each.where for each in model.summary()} <= {"VPU", "none"}


def test_a_causal_pad_of_a_sequence_is_the_convolutions_own(tmp_path):
    b = Builder()
    x = padded(b, b.input((1, 12, 16), 0.05, -3), ((0, 0), (4, 0), (0, 0)))
    weight = RNG.integers(-127, 128, (8, 1, 3, 16)).astype(np.int8)
    row = b.reshape(x, (1, 1, 16, 16))
    scales = {"weight_scale": np.full(8, 0.01), "weight_zero_point": np.zeros(8, int), "scale": 0.1}
    y = b.conv(row, weight, np.zeros(8), **scales, padding="VALID", dilation=(1, 2))
    data = b.build(b.reshape(y, (1, 12, 8)))
    nodes = simplify(load_tflite(data)).nodes
    assert [node.op for node in nodes] == ["reshape", "conv", "reshape"]
    assert tuple(nodes[1]["padding"]) == (0, 4, 0, 0)
    assert equals_library(tmp_path, data).host_macs == 0


def test_pads_of_the_batch_and_of_floats_are_right(tmp_path):
    b = Builder()
    y = padded(b, b.input((1, 5, 6, 8), 0.05, -3), ((1, 0), (0, 0), (0, 0), (0, 0)))
    equals_library(tmp_path, b.build(y))
    b = Builder("float32")
    equals_library(tmp_path, b.build(padded(b, b.input((1, 12, 4)), ((0, 0), (4, 0), (0, 0)))))


def test_a_pad_that_contradicts_its_output_is_refused():
    b = Builder()
    y = padded(b, b.input((1, 20), 0.05, -3), ((0, 0), (4, 8)))
    b.tensors[y].shape = [1, 31]
    with pytest.raises(ValueError, match=r"\(PAD\): its output must be \(1, 32\), not \(1, 31\)"):
        load_tflite(b.build(y))
