"""Damaged ONNX files give a graph or a ValueError, never anything else."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")

import onnx

from tpulite.frontend.files import load_graph
from tpulite.frontend.onnx.file import load_onnx
from tpulite.graph.passes import simplify
from tpulite.quant.exactness import Exactness
from tpulite.quant.place import place
from tpulite_testing.drawn.onnx_nodes import NODES, node_case


def survives(data: bytes) -> None:
    try:
        place(simplify(load_onnx(data, "net")), Exactness.ORT)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize("op", ["Conv", "Gemm", "Split", "Resize", "MatMulInteger"])
def test_bytes_replaced(op):
    whole = node_case(op, 1)
    for i in range(0, len(whole), max(1, len(whole) // 60)):
        value = (0x00, 0x01, 0x7F, 0x80, 0xFF)[i % 5]
        survives(whole[:i] + bytes([value]) + whole[i + 1 :])


@pytest.mark.parametrize("op", NODES)
def test_several_bytes_replaced(op):
    rng = np.random.default_rng(7)
    whole = node_case(op, 2)
    for _ in range(4):
        data = bytearray(whole)
        for position in rng.integers(0, len(data), 3):
            data[position] = rng.integers(0, 256)
        survives(bytes(data))


def test_names_of_other_files_damaged(tmp_path):
    model = onnx.load_model_from_string(node_case("Conv", 1))
    path = tmp_path / "net.onnx"
    settings = {"save_as_external_data": True, "location": "net.data", "size_threshold": 0}
    onnx.save_model(model, path, **settings)
    whole, rng = path.read_bytes(), np.random.default_rng(3)
    places = [i for key in (b"location", b"offset", b"length") for i in places_of(key, whole)]
    for start in places:
        data = bytearray(whole)
        data[start + rng.integers(0, 20)] = rng.integers(0, 256)
        path.write_bytes(data)
        try:
            load_graph(path)
        except ValueError as error:
            assert str(error).startswith(f"{path}: ")


def places_of(key, data):
    return [i for i in range(len(data) - 20) if data[i : i + len(key)] == key]


def test_truncations():
    whole = node_case("Conv", 3)
    for length in range(0, len(whole), max(1, len(whole) // 50)):
        survives(whole[:length])
