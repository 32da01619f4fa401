"""Workloads that are called files give the layers of real files, written and read again."""

from dataclasses import fields

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.bench.files import FILES
from tpulite.frontend.tflite.writer import write_tflite
from tpulite.graph.layers import Activation, LayerGraph, Requantization
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder

NAMES = ("name", "inputs", "output")


def written(graph) -> bytes:
    """Return the file of a graph; that of ONNX by a writer of its own."""
    if graph.format == "tflite":
        return write_tflite(graph)
    (node,) = graph.nodes
    x, y = (graph.tensors[name] for name in ("x", "y"))
    batch, height, width, channels = x.shape
    b = OnnxBuilder()
    quantized = b.quantize(
        b.input("x", (batch, channels, height, width)), *parameters(x.quantization)
    )
    constants = [graph.tensors[name].data for name in node.inputs[1:]]
    normal = b.node("BatchNormalization", quantized, *constants, epsilon=node["epsilon"])
    return b.build(b.quantize(normal, *parameters(y.quantization)), dtype="float32")


def parameters(quantization) -> tuple[float, int]:
    return float(quantization.scale[0]), int(quantization.zero_point[0])


def plain(value):
    """Return a value that compares by its content, names left out."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, Requantization):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    return value


def shapes(layers: LayerGraph, names) -> list[Activation]:
    return [layers.activations[name] for name in names]


@pytest.mark.parametrize("name", FILES)
def test_a_graph_of_the_benchmark_is_that_of_a_file(name, tmp_path):
    graph = FILES[name](name)
    path = tmp_path / f"net.{graph.format}"
    path.write_bytes(written(graph))
    exact = "ort-int8" if graph.format == "onnx" else None  # others make int8 uint8
    ours, read = (Model.load(source, exact=exact).layers for source in (graph, path))
    assert len(ours) == len(read) == 1
    for one, other in zip(ours[0].layers, read[0].layers, strict=True):
        assert type(one) is type(other)
        assert shapes(ours[0], (*one.inputs, one.output)) == shapes(
            read[0], (*other.inputs, other.output)
        )
        for field in fields(one):
            if field.name not in NAMES:
                values = (plain(getattr(layer, field.name)) for layer in (one, other))
                assert next(values) == next(values), (one.title, field.name)
    assert len(ours[0].unsigned) == len(read[0].unsigned)
