"""Outputs whose shape only a run knows are told in the shape that they have."""

import json

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing")
from tpulite_testing.files.onnx_builder import OnnxBuilder

pytest_plugins = ("tpulite_testing.command_line",)


def test_boxes_that_are_left_are_told(tpulite, tmp_path):
    b, rng = OnnxBuilder(), np.random.default_rng(2)
    x = b.quantize(b.input("x", (1, 8, 4)), 0.05, 7, "uint8")
    weight = b.weight(rng.integers(-127, 128, (4, 4)).astype(np.int8), 0.01)
    boxes = b.quantize(b.node("MatMul", x, weight), 0.05, 3, "uint8")
    scores = b.node("Reshape", b.node("ReduceMax", boxes, axes=[2]), np.array([1, 1, 8]))
    kept = b.node("NonMaxSuppression", boxes, scores, np.array([3]))
    (tmp_path / "net.onnx").write_bytes(b.build(kept, boxes, dtype="int64"))
    np.save(tmp_path / "x.npy", rng.normal(0, 2, (2, 8, 4)).astype(np.float32))
    np.save(tmp_path / "one.npy", rng.normal(0, 2, (1, 8, 4)).astype(np.float32))
    code, out, err = tpulite("run", "net.onnx", "--input", "one.npy", "--json", "run.json")
    assert (code, err) == (0, "")
    told = json.loads((tmp_path / "run.json").read_text())["answers"][0]["outputs"]
    assert told[0]["dtype"] == "int64" and told[0]["shape"][1:] == [3]
    assert f"{kept}: int64 [{told[0]['shape'][0]}, 3]" in out
    # Of several inputs nobody knows which rows are whose.
    code, out, err = tpulite("run", "net.onnx", "--input", "x.npy")
    assert (code, err) == (0, "") and kept not in out and boxes in out
