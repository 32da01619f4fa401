"""Exported networks run by C on the Verilated chip, and give golden's bits in its cycles."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.export import export_files, export_network, reference_runs
from tpulite.golden.timing import predict_cycles
from tpulite.graph.graph import Graph, Node
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.exported import sources_of
from tpulite_testing.graphs.model_graphs import chain, tensor
from tpulite_verilated.library import HARNESS_DIR, build_library, cached_verilog

EXAMPLE = Path(__file__).parents[2] / "examples" / "c" / "selftest_on_simulator.c"
NAME = "net"


def classifier() -> Graph:
    """Make a network of floats at its ends, and with a softmax between programs of the machine."""
    weight = np.random.default_rng(1).integers(-127, 128, (10, 40), np.int8)
    square = np.random.default_rng(2).integers(-127, 128, (10, 10), np.int8)
    tensors = [
        tensor("x", (1, 40)),
        tensor("xq", (1, 40), "uint8", (0.05, 3)),
        tensor("w", (10, 40), "uint8", (0.01, 128), weight.view(np.uint8) ^ 0x80),
        tensor("y", (1, 10), "uint8", (0.1, 120)),
        tensor("p", (1, 10), "uint8", (1 / 256, 0)),
        tensor("v", (10, 10), "uint8", (0.01, 128), square.view(np.uint8) ^ 0x80),
        tensor("z", (1, 10), "uint8", (0.004, 130)),
        tensor("out", (1, 10)),
        tensor("class", (1,), "int64"),
    ]
    nodes = [
        Node("q", "quantize", ("x",), ("xq",), source="QUANTIZE"),
        Node("d", "dense", ("xq", "w"), ("y",), {"activation": "none"}, "FULLY_CONNECTED"),
        Node("s", "softmax", ("y",), ("p",), {"beta": 1.0}, "SOFTMAX"),
        Node("e", "dense", ("p", "v"), ("z",), {"activation": "none"}, "FULLY_CONNECTED"),
        Node("f", "dequantize", ("z",), ("out",), source="DEQUANTIZE"),
        Node("a", "argmax", ("z",), ("class",), {"axis": 1}, "ARG_MAX"),
    ]
    return chain(nodes, tensors)


def convolution() -> Graph:
    """Make an ONNX network, whose axes the host must put into another order."""
    pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
    from tpulite.frontend.onnx.file import load_onnx
    from tpulite_testing.files.onnx_builder import OnnxBuilder

    rng, b = np.random.default_rng(2), OnnxBuilder()
    x = b.quantize(b.input("x", (1, 5, 9, 7)), 0.05, -7)
    weight = rng.integers(-127, 128, (20, 5, 3, 3)).astype(np.int8)
    y = b.node("Conv", x, b.weight(weight, 0.005), pads=[1, 1, 1, 1], strides=[2, 1])
    return load_onnx(b.build(b.quantize(y, 0.05, 3)), "convolution")


def residual() -> Graph:
    """Make an ONNX network whose additions, products, sigmoid and average a library computes."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
    from tpulite.frontend.onnx.file import load_onnx
    from tpulite_testing.files.onnx_builder import OnnxBuilder

    rng, b = np.random.default_rng(3), OnnxBuilder()
    x = b.quantize(b.input("x", (1, 3, 12, 12)), 0.02, 128, "uint8")

    def conv(x: str, channels: int) -> str:
        weight = rng.integers(-127, 128, (16, channels, 3, 3)).astype(np.int8)
        y = b.node("Conv", x, b.weight(weight, 0.004), pads=[1, 1, 1, 1])
        return b.quantize(y, 0.05, 131, "uint8")

    first = conv(x, 3)
    summed = b.quantize(b.node("Add", first, conv(first, 16)), 0.0731, 120, "uint8")
    gate = b.quantize(b.node("Sigmoid", summed), 1 / 256, 0, "uint8")
    product = b.quantize(b.node("Mul", summed, gate), 0.04, 30, "uint8")
    y = b.quantize(b.node("GlobalAveragePool", conv(product, 16)), 0.013, 140, "uint8")
    return load_onnx(b.build(y), "residual")


NETWORKS = {
    "mlp": lambda: MLP_DIGITS,
    "cnn": lambda: CNN_DIGITS,
    "classifier": classifier,
    "convolution": convolution,
    "residual": residual,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_an_exported_network_gives_goldens_bits(name, tmp_path):
    options = Options(batch=3 if name == "mlp" else 1)
    exact = "litert-opt" if name == "classifier" else None  # whose softmax is always the host's
    model = Model.load(NETWORKS[name](), options=options, exact=exact)
    portable = model.without_library()
    exported = export_network(portable)
    inputs = random_inputs(model.graph, exported.batch, seed=1)
    (key,) = model.graph.inputs
    shaped = {key: inputs[key].reshape(-1, *model.graph.tensors[key].shape)}
    folder = tmp_path / "exported"
    files = export_files(exported, reference_runs(model, shaped), NAME, folder)

    library = build_library(cached_verilog(Config()), title="the 16x16 chip")
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-DNETWORK={NAME}"]
    for path in (folder / "main.c", folder / f"{NAME}_image.c"):
        subprocess.run(["gcc", *flags, "-c", path, "-o", tmp_path / "alone.o"], check=True)
    sources = [path for path in sources_of(files) if path.name != f"{NAME}_image.c"]
    flags += [
        f"-I{folder}",
        f"-I{HARNESS_DIR}",
        "-include",
        f"{NAME}.h",
        f"-Wl,-rpath,{library.parent}",
    ]
    subprocess.run(
        ["gcc", *flags, EXAMPLE, *sources, library, "-o", tmp_path / "selftest"], check=True
    )
    words = [tmp_path / "selftest", folder / f"{NAME}_image.bin"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    status, wrong, fault, cycles = map(int, done.stdout.split())
    assert (status, wrong, fault) == (0, 0, 0)
    assert len(portable.programs) == 1 + (name in ("classifier", "residual"))
    predicted = sum(predict_cycles(each.commands, each.config) for each in portable.programs)
    assert cycles == pytest.approx(predicted, rel=0.01)
