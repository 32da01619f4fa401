"""The folder of a layout: what is in it, and what is refused."""

import json

import numpy as np
import pytest

import tpulite
from tpulite import layouts
from tpulite_testing.graphs.weighted_graphs import Weighted, weighted_graph


@pytest.fixture
def folder(tmp_path):
    graph = weighted_graph(
        [
            Weighted(oc=70, zero_points=(3, 0, -7), bias=False),
            Weighted(op="dense", oc=5, ic=9, dtype="float32"),
        ]
    )
    layouts.write(layouts.lay_out(graph, weights="bf16"), tmp_path / "out")
    return tmp_path / "out"


def test_the_manifest_says_where_each_tensor_lies(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    data = (folder / "coefficients.bin").read_bytes()
    with np.load(folder / "steps.npz") as steps:
        steps = dict(steps)
    conv, dense = manifest["layers"]
    assert conv["tensors"] == {
        "coefficients": {"offset": 0, "bytes": 16384, "shape": [1, 64, 1, 256], "type": "int8"}
    }
    assert dense["tensors"] == {
        "filter": {"offset": 16384, "bytes": 320, "shape": [1, 5, 1, 32], "type": "uint16"},
        "bias": {"offset": 16704, "bytes": 20, "shape": [1, 5, 1, 1], "type": "float32"},
    }
    assert manifest["coefficients"] == {"file": "coefficients.bin", "bytes": len(data)}
    lanes = np.frombuffer(data[:16384], np.int8).reshape(64, 256)
    for name, width in (("requant", "w4"), ("bias", "w3"), ("filter", "w2")):
        start = conv[f"{name}_offset"]
        part = lanes[:, start : start + conv[width]]
        np.testing.assert_array_equal(part, steps[f"conv_y0/step3/{name}"][0, :, 0])
    np.testing.assert_array_equal(lanes, steps["conv_y0/step4/coefficients"][0, :, 0])
    assert data[16384:16704] == steps["dense_y1/step2/filter"].tobytes()
    assert not conv["has_bias"] and conv["requant"]["input_zero_point"] == 3
    assert layouts.describe(layouts.read(folder)) == manifest


def test_layouts_are_offered_by_the_package():
    assert tpulite.layouts is layouts
    assert {name for name in layouts.__all__ if not hasattr(layouts, name)} == set()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "its format is not tpulite-layout version 1"),
        ({"layers": None}, "'NoneType' object is not iterable"),
        ({"machine": {}}, "it has no 'lanes'"),
        ({"machine": {"lanes": 0, "ic_parallel": 1, "eu_num": 1}}, "lanes must be at least 1"),
    ],
)
def test_foreign_manifests_are_refused(folder, change, message):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=message) as error:
        layouts.read(folder)
    assert str(error.value).startswith(f"{path} is not a layout manifest: ")


def test_damaged_bytes_are_refused(folder):
    path = folder / "coefficients.bin"
    data = path.read_bytes()
    for place, said in (
        (None, "it has 16723 bytes, and manifest.json says 16724"),
        (8, "zero points of 'conv_y0' are not all -7"),  # that of channel 0
        (12, "conv_y0: Byte 12 of lane 0 is padding and must be 0, not 1"),
        (
            16384 + 2 * 9,
            "dense_y1: Padding of the packed filter must be 0, not 1 as in output channel 0",
        ),
    ):
        damaged = bytearray(data)
        if place is None:
            damaged.pop()
        else:
            damaged[place] ^= 1
        path.write_bytes(bytes(damaged))
        with pytest.raises(ValueError) as error:
            layouts.read(folder)
        assert str(error.value) == f"{path} is damaged: {said}"
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"coefficients\.bin"):
        layouts.read(folder)
