"""The C of operators that a library computes gives its bytes, for all values of the operands."""

import ctypes
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from tpulite.export.c_text import Code, define
from tpulite.export.library_steps import library_call
from tpulite.firmware import FOLDER
from tpulite.frontend.onnx.file import load_onnx
from tpulite.graph.passes import simplify
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library
from tpulite_testing.files.onnx_builder import OnnxBuilder

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)"
)

PIXELS = (1, 16, 8, 8)


def network(op, dtype, points, scales, shapes=(PIXELS, PIXELS), constant=None):
    """Return a file of an operator between Q and DQ, and its operands' quantization."""
    b = OnnxBuilder()
    operands = []
    for i, (shape, scale, point) in enumerate(zip(shapes, scales, points, strict=False)):
        if i == 1 and constant is not None:
            parameters = np.float32(scale), np.array(point, dtype)
            operands.append(b.node("DequantizeLinear", constant.astype(dtype), *parameters))
        else:
            operands.append(b.quantize(b.input(f"x{i}", shape), scale, point, dtype))
    y = b.node(op, *operands)
    return b.build(b.quantize(y, scales[-1], points[-1], dtype), dtype="float32")


def call_of(data):
    graph = as_library(simplify(load_onnx(data, "net")), Exactness.ORT)
    (node,) = (n for n in graph.nodes if n.source.startswith("QLinear"))
    planned = library_call(node, graph, Exactness.ORT)
    assert planned is not None
    return planned.make(), [node.inputs.index(name) for name in planned.reads]


def compiled(folder, call):
    """Compile the C functions with the arguments of a call."""
    text, fields = ["#include <stdint.h>\n", '#include "tpulite_host.h"\n'], call.fields
    for field, values in call.pointers.items():
        text.append(define("static const uint32_t", field, values, extent=f"[{values.size}]"))
        fields = {**fields, field: Code(field)}
    text.append(define(f"const {call.arguments}", "arguments", fields))
    source, library = folder / "call.c", folder / "call.so"
    source.write_text("".join(text))
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-fPIC", "-shared"]
    files = [source, FOLDER / "tpulite_host.c"]
    subprocess.run(["gcc", *flags, f"-I{FOLDER}", *files, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def run_c(library, call, operands, shape, dtype):
    got = np.zeros(shape, dtype)
    arguments = ctypes.c_char.in_dll(library, "arguments")
    kept = [np.ascontiguousarray(x) for x in operands]
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in kept]
    target = ctypes.c_void_p(got.ctypes.data)
    getattr(library, call.function)(ctypes.byref(arguments), *pointers, target)
    return got


def run_library(data, feeds):
    """Run the untouched file in an ordinary session, on floats that are the integers' meaning."""
    from tpulite_testing.oracles.onnx_session import open_onnx

    return open_onnx(data).run(None, feeds)[0]


def real(integers, point, scale):
    """Return what integers mean, in float32 as DequantizeLinear has it."""
    return ((integers.astype(np.int64) - point) * np.float32(scale)).astype(np.float32)


BINARY = [
    ("Add", "uint8", (128, 131, 120), (0.05, 0.031, 0.0731)),
    ("Add", "uint8", (3, 250, 17), (0.25, 0.25, 0.5)),  # half of all sums are between integers
    ("Mul", "uint8", (0, 128, 30), (1 / 256, 0.05, 0.03)),
    ("Mul", "uint8", (7, 9, 11), (0.5, 0.5, 0.5)),
]


@pytest.mark.parametrize("case", range(len(BINARY)))
def test_pairs_of_bytes_are_the_librarys(case, tmp_path):
    op, dtype, points, scales = BINARY[case]
    data = network(op, dtype, points, scales)
    call, order = call_of(data)
    library = compiled(tmp_path, call)
    rng = np.random.default_rng(case)
    for _ in range(20):
        operands = [rng.integers(0, 256, PIXELS).astype(dtype) for _ in range(2)]
        feeds = {f"x{i}": real(x, points[i], scales[i]) for i, x in enumerate(operands)}
        got = run_c(library, call, [operands[i] for i in order], PIXELS, dtype)
        due = run_library(data, feeds)
        np.testing.assert_array_equal(real(got, points[2], scales[2]), due)


@pytest.mark.parametrize("shape", [(1, 16, 1, 1), (1, 1, 8, 8), (1, 1, 1, 1)])
def test_an_operand_that_repeats_is_taken_where_it_belongs(shape, tmp_path):
    points, scales = (128, 0, 100), (0.05, 1 / 256, 0.02)
    data = network("Mul", "uint8", points, scales, (PIXELS, shape))
    call, _ = call_of(data)
    assert not isinstance(call.fields, int) and call.fields["period"] == np.prod(shape)
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 256, x).astype("uint8") for x in (PIXELS, shape))
    got = run_c(compiled(tmp_path, call), call, [a, b], PIXELS, "uint8")
    due = run_library(data, {"x0": real(a, 128, 0.05), "x1": real(b, 0, 1 / 256)})
    np.testing.assert_array_equal(real(got, 100, 0.02), due)


def test_averages_of_all_sums_are_the_librarys(tmp_path):
    points, scales = (130, 90), (0.05, 0.017)
    data = network("GlobalAveragePool", "uint8", points, scales, (PIXELS,))
    call, _ = call_of(data)
    library = compiled(tmp_path, call)
    rng = np.random.default_rng(6)
    for _ in range(20):
        level = rng.integers(0, 256, (1, 16, 1, 1))
        a = np.clip(level + rng.integers(-40, 41, PIXELS), 0, 255).astype("uint8")
        got = run_c(library, call, [a.transpose(0, 2, 3, 1)], (1, 16, 1, 1), "uint8")
        due = run_library(data, {"x0": real(a, 130, 0.05)})
        np.testing.assert_array_equal(real(got, 90, 0.017), due)


def litert_network(op, shapes, scales, points):
    """Return a graph of an operator of int8 with LiteRT's numerics, and its node."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
    data = network(op, "int8", points, scales, shapes)
    graph = as_library(simplify(load_onnx(data, "net")), Exactness.LITERT_REF)
    return graph, next(node for node in graph.nodes if node.source == op)


def test_pairs_of_bytes_with_litert_s_numerics_are_those_of_litert(tmp_path):
    points, scales, whole = (3, -9, 14), (0.05, 0.031, 0.0731), (2, 2, 3, 4, 5)
    graph, node = litert_network("Add", (whole, whole), scales, points)
    planned = library_call(node, graph, Exactness.LITERT_REF)
    assert planned is not None
    from tpulite.runtime.host.libraries import open_library
    from tpulite_testing.files.tflite_builder import Builder

    b = Builder()
    ends = [b.input(whole, *each) for each in zip(scales[:2], points[:2], strict=True)]
    made = b.tensor(whole, scales[2], points[2])
    options = {"options_type": "AddOptions", "potScaleInt16": False}
    run = open_library(b.build(b.operator("ADD", ends, [made], **options)), "tflite", "litert-ref")
    call, rng = planned.make(), np.random.default_rng(9)
    library = compiled(tmp_path, call)
    order = [node.inputs.index(name) for name in planned.reads]
    for _ in range(20):
        operands = [rng.integers(-128, 128, whole).astype(np.int8) for _ in range(2)]
        got = run_c(library, call, [operands[i] for i in order], whole, "int8")
        np.testing.assert_array_equal(got, run(operands)[0])


def test_functions_that_go_by_position_are_no_tables():
    graph, _ = litert_network("Tanh", ((1, 37),), (0.03, 1 / 32), (4, 9))
    *_, change = (each for each in graph.nodes if each.op == "requantize")
    for exact, shape in ((Exactness.LITERT_REF, (1, 37)), (Exactness.LITERT_OPT, (1, 64))):
        tensors = {name: replace(x, shape=shape) for name, x in graph.tensors.items()}
        planned = library_call(change, replace(graph, tensors=tensors), exact)
        assert planned is not None
        fields = planned.make().fields
        assert not isinstance(fields, int) and fields["count"] == shape[1]
    planned = library_call(change, graph, Exactness.LITERT_OPT)
    assert planned is not None
    with pytest.raises(ValueError, match="no function of one byte"):
        planned.make()
