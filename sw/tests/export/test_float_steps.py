"""The C of operators that ONNX Runtime computes with floats adds and rounds as it does."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.export import float_sums
from tpulite.export.c_text import Code, array, define
from tpulite.export.library_steps import planned_calls
from tpulite.firmware import FOLDER
from tpulite.frontend.onnx.file import load_onnx
from tpulite.graph.passes import simplify
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library
from tpulite.quant.partition import HostSegment
from tpulite_testing.files.onnx_builder import OnnxBuilder

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)"
)

SCALE, POINT = 0.021, 117


def average(b, x, **attributes):
    return b.node("AveragePool", x, **attributes)


def tanh_and_average(b, x):
    return b.node("AveragePool", b.node("Tanh", x), kernel_shape=[2, 2], strides=[2, 2])


def resize(b, x, scales, **attributes):
    scales = np.array(scales, np.float32)
    return b.node("Resize", x, "", scales, mode="linear", **attributes)


def softmax(b, x, axis):
    return b.node("Softmax", x, axis=axis)


def sliced(b, x):
    starts, ends, axes, steps = (
        np.array(each) for each in ([1, 20, 7], [9, 1, -20], [1, 2, 3], [2, -3, -2])
    )
    return b.node("Transpose", b.node("Slice", x, starts, ends, axes, steps), perm=[0, 3, 1, 2])


def mean(b, x, *axes):
    return b.node("ReduceMean", x, axes=list(axes), keepdims=0)


def total(b, x, *axes):
    return b.node("ReduceSum", x, np.array(axes, np.int64), keepdims=1)


IMAGE, PADDED = (1, 3, 9, 8), {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 0, 1, 2]}
CASES = {
    "average": (average, IMAGE, {"kernel_shape": [2, 2], "strides": [2, 2]}, 0.021),
    "average_of_padded": (average, IMAGE, PADDED, 0.017),
    "average_with_padding": (average, IMAGE, PADDED | {"count_include_pad": 1}, 0.017),
    "average_of_a_line": (average, (1, 4, 17), {"kernel_shape": [3], "strides": [2]}, 0.02),
    "columns_of_floats": (tanh_and_average, (1, 3, 8, 8), {}, 0.007),
    "blocks_of_floats": (tanh_and_average, (1, 16, 8, 8), {}, 0.007),
    "half_pixels": (resize, (1, 2, 5, 4), {"scales": [1, 1, 2, 2]}, 0.021),
    "corners": (
        resize,
        (1, 2, 5, 4),
        {"scales": [1, 1, 1.6, 2.5], "coordinate_transformation_mode": "align_corners"},
        0.021,
    ),
    "softmax_of_the_last_axis": (lambda b, x: softmax(b, x, -1), (1, 6, 21), {}, 1 / 256),
    "softmax_of_a_middle_axis": (
        lambda b, x: b.node("Softmax", x, axis=2),
        (1, 4, 16, 9),
        {},
        1 / 255,
    ),
    "every_other_backwards": (sliced, (1, 7, 12, 9), {}, SCALE),
    "mean_of_images": (lambda b, x: mean(b, x, 2, 3), (1, 6, 6, 7), {}, SCALE),
    "mean_of_few": (lambda b, x: mean(b, x, 2), (1, 12, 3), {}, 0.0107),
    "mean_of_tokens": (lambda b, x: mean(b, x, 1), (1, 12, 12), {}, SCALE),
    "sum_of_a_middle_axis": (lambda b, x: total(b, x, 2), (1, 4, 16, 8), {}, 8 * SCALE),
    "sum_of_seven": (lambda b, x: total(b, x, 2), (1, 4, 7, 8), {}, 0.07),
}


def files():
    for name, (operator, shape, attributes, scale) in CASES.items():
        b = OnnxBuilder()
        x = b.quantize(b.input("x", shape), SCALE, POINT, "uint8")
        y = operator(b, x, **attributes)
        point = 0 if name.startswith("softmax") else 121
        yield (
            name,
            b.build(
                b.quantize(y, scale, POINT if scale == SCALE else point, "uint8"), dtype="float32"
            ),
        )


def opened(data):
    """Return an ordinary session of the untouched file."""
    from tpulite_testing.oracles.onnx_session import open_onnx

    return open_onnx(data)


def calls_of(data):
    graph = as_library(simplify(load_onnx(data, "net")), Exactness.ORT)
    reasons = ("",) * len(graph.nodes)
    segment = HostSegment(graph.nodes, graph.inputs, graph.outputs, reasons, 0, graph.format)
    planned = planned_calls(segment, graph, Exactness.ORT)
    calls = []
    for node, call in planned:
        assert call is not None, node
        calls.append((call.make(), call.reads, node.outputs[0]))
    return graph, calls


def written(call, name):
    """Return the definition of a call's arguments."""
    text, fields = "", call.fields
    for field, values in call.pointers.items():
        ctype = "float" if values.dtype == np.float32 else f"{values.dtype}_t"
        text += f"static {array(ctype, f'{name}_{field}', values)}"
        fields = {**fields, field: Code(f"{name}_{field}")}
    return text + define(f"const {call.arguments}", name, fields)


def test_results_of_floats_are_the_librarys(tmp_path):
    files_of, text = dict(files()), ["#include <stdint.h>\n", '#include "tpulite_host.h"\n']
    planned = {name: calls_of(data) for name, data in files_of.items()}
    for name, (_, calls) in planned.items():
        text += [written(call, f"{name}_{i}") for i, (call, _, _) in enumerate(calls)]
    source, library = tmp_path / "calls.c", tmp_path / "calls.so"
    source.write_text("".join(text))
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-fPIC", "-shared"]
    more = [FOLDER / f"tpulite_host{part}.c" for part in ("", "_float")]
    # Contraction would fuse products with sums on CPUs that can.
    flags += ["-ffp-contract=fast", "-march=native"]
    subprocess.run(["gcc", *flags, f"-I{FOLDER}", source, *more, "-o", library], check=True)
    code, rng = ctypes.CDLL(str(library)), np.random.default_rng(4)
    for name, (graph, calls) in planned.items():
        shape, session = graph.tensors["x"].shape, opened(files_of[name])
        for _ in range(5):
            x = ((rng.integers(0, 256, shape) - POINT) * np.float32(SCALE)).astype(np.float32)
            known = {"x": x}
            for i, (call, reads, result) in enumerate(calls):
                tensor = graph.tensors[result]
                known[result] = np.zeros(tensor.shape, tensor.dtype)
                given = [known[read].ctypes.data for read in reads]
                arguments = ctypes.byref(ctypes.c_char.in_dll(code, f"{name}_{i}"))
                pointers = [ctypes.c_void_p(each) for each in (*given, known[result].ctypes.data)]
                getattr(code, call.function)(arguments, *pointers)
            (due,) = session.run(None, {"x": x})
            np.testing.assert_array_equal(known[graph.outputs[0]], due, err_msg=name)


@pytest.mark.parametrize("name", ["mean_of_images", "mean_of_tokens", "sum_of_a_middle_axis"])
@pytest.mark.parametrize("group", [0, 1, 4])
def test_sums_in_another_order_than_the_librarys_are_refused(name, group, monkeypatch):
    """Some results lie between two integers, where a last bit of the sum decides."""
    order = {"mean_of_images": 0, "mean_of_tokens": 1, "sum_of_a_middle_axis": 4}[name]
    monkeypatch.setattr(float_sums, "_group", lambda *_: group)
    if group == order:
        calls_of(dict(files())[name])
        return
    with pytest.raises(ValueError, match="cannot be exported: on this CPU ONNX Runtime adds"):
        calls_of(dict(files())[name])
