"""The C of the host computes what numpy does, bit for bit, on drawn cases."""

import ctypes
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.memory import Window
from tpulite.export.c_text import Code, define, table
from tpulite.export.host_steps import host_call
from tpulite.export.network import layout_fields
from tpulite.firmware import FOLDER
from tpulite.layout import pack_activations, unpack_activations
from tpulite.quant.exactness import Exactness
from tpulite.runtime.host.ops import run_node
from tpulite.tensor_spec import PackedRows, Patches, TensorSpec
from tpulite_testing.graphs.model_graphs import single, tensor

SEED = 7

CODE_BYTES = 15 * 1024
"""That all of the library may take, constants included, tables of networks not."""

RV32 = "riscv64-unknown-elf-"

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)"
)


def compiled(folder, text: str) -> ctypes.CDLL:
    """Compile the firmware with more definitions into a library."""
    source = folder / "cases.c"
    source.write_text(f'#include "tpulite_host.h"\n#include "tpulite_network.h"\n{text}')
    files = [source, *FOLDER.glob("*.c")]
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-fPIC", "-shared"]
    library = folder / "cases.so"
    subprocess.run(["gcc", *flags, f"-I{FOLDER}", *files, "-o", library], check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize(
    ("tools", "flags"),
    [
        ("", []),
        (RV32, ["-march=rv32imc", "-mabi=ilp32"]),
        (RV32, ["-march=rv32i", "-mabi=ilp32"]),
    ],
    ids=["workstation", "rv32imc", "rv32i"],
)
def test_the_library_is_small_and_has_no_warnings(tools, flags, tmp_path):
    if shutil.which(f"{tools}gcc") is None:
        pytest.skip(f"{tools}gcc is missing (Debian: apt install gcc-riscv64-unknown-elf)")
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    command = [f"{tools}gcc", *flags, *strict, "-ffreestanding", "-Os", "-c", *FOLDER.glob("*.c")]
    subprocess.run(command, cwd=tmp_path, check=True)
    command = [f"{tools}size", "--totals", *sorted(path.name for path in tmp_path.glob("*.o"))]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    print(said)
    text, data, bss = map(int, said.splitlines()[-1].split()[:3])
    assert text <= CODE_BYTES and data == bss == 0


def pointer(values: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)


def cases():
    """Yield operator, tensors, attributes and exactness, drawn from a seed."""
    rng = np.random.default_rng(SEED)
    for exact in ("litert-ref", "litert-opt", "litert-xnnpack", "tflm", "ort"):
        for dtype in ("int8", "uint8"):
            low = np.iinfo(dtype).min
            for scale in (*rng.uniform(0.001, 1, 2), 1.0, 2.0**-20):
                q = (float(scale), int(rng.integers(low, low + 256)))
                yield exact, "quantize", ("float32", None), (dtype, q), {}
                yield exact, "dequantize", (dtype, q), ("float32", None), {}
                if exact != "ort":
                    beta = float(rng.choice([1.0, 0.5]))
                    result = (dtype, (1 / 256, low))
                    yield exact, "softmax", (dtype, q), result, {"beta": beta}
        q = (0.5, 7)
        yield exact, "argmax", ("int8", q), ("int32", None), {"axis": 1}
        yield exact, "argmax", ("uint8", q), ("int64", None), {"axis": 2}
        yield exact, "transpose", ("float32", None), ("float32", None), {"perm": (2, 0, 1)}
        yield exact, "reshape", ("int8", q), ("int8", q), {"shape": (33, 7)}
    yield "litert-ref", "requantize", ("uint8", (0.3, 7)), ("int8", (0.2, -5)), {}


def shape_after(op: str, shape: tuple[int, ...], attributes: dict) -> tuple[int, ...]:
    if op == "argmax":
        return tuple(n for axis, n in enumerate(shape) if axis != attributes["axis"])
    if op == "transpose":
        return tuple(shape[axis] for axis in attributes["perm"])
    return attributes.get("shape", shape)


def test_operators_have_the_librarys_bits(tmp_path):
    rng = np.random.default_rng(SEED)
    shape, drawn, text = (3, 7, 11), [], []
    for number, (exact, op, (xtype, xq), (ytype, yq), attributes) in enumerate(cases()):
        x = tensor("x", shape, xtype, xq)
        y = tensor("y", shape_after(op, shape, attributes), ytype, yq)
        graph = single(op, [x], [y], attributes)
        call = host_call(graph.nodes[0], graph, Exactness(exact))
        fields = call.fields
        for field, values in call.pointers.items():
            assert not isinstance(fields, int)
            kind = "float" if values.dtype == np.float32 else "int32_t"
            extent = f"[{len(values)}]"
            text.append(define(f"static const {kind}", f"{field}_{number}", values, extent=extent))
            fields = {**fields, field: Code(f"{field}_{number}")}
        text.append(define(f"const {call.arguments}", f"case_{number}", fields))
        drawn.append((graph, Exactness(exact), call.function))
    library = compiled(tmp_path, "".join(text))
    for number, (graph, exact, function) in enumerate(drawn):
        x, y = graph.tensors["x"], graph.tensors["y"]
        if x.dtype == "float32":
            scale = 1.0 if y.quantization is None else float(y.quantization.scale[0])
            values = (rng.normal(0, 100 * scale, shape)).astype(np.float32)
            halves = rng.integers(-600, 600, 120) / 2 * np.float32(scale)
            special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-45]
            flat = values.reshape(-1)
            flat[:120], flat[120 : 120 + len(special)] = halves, special
            flat[-7:] = (rng.integers(-60, 60, 7) + 0.5) * scale  # no whole vector of a kernel
        else:
            limits = np.iinfo(x.dtype)
            values = rng.integers(limits.min, limits.max + 1, shape).astype(x.dtype)
        due = run_node(graph.nodes[0], graph, {"x": values}, exact)["y"]
        got = np.zeros(due.shape, due.dtype)
        arguments = ctypes.c_char.in_dll(library, f"case_{number}")
        getattr(library, function)(ctypes.byref(arguments), pointer(values), pointer(got))
        assert got.tobytes() == due.tobytes(), (graph.nodes[0], exact, y.quantization)


def specs():
    """Yield tensors in every layout that programs have."""
    common = {"name": "x", "window": Window.INPUT, "offset": 0}
    rng = np.random.default_rng(SEED)
    for channels in (1, 3, 16, 37):
        height, width = (int(n) for n in rng.integers(5, 12, 2))
        image = {"m": height * width, "channels": channels, "image": (height, width), **common}
        yield TensorSpec(**image)
        yield TensorSpec(**image, batch=3)
        yield TensorSpec(**image, batch=3, stacked=True)
        yield TensorSpec(**image | {"dtype": "int32"})
        yield TensorSpec(m=5, channels=channels, **common)
        for vectors in (1, 2, 9):
            rows = PackedRows(vectors, pad=1, fill=-7)
            yield TensorSpec(**image | {"m": height, "packed_rows": rows}, batch=2)
            rows = PackedRows(vectors, pad=0, fill=3, transposed=True)
            yield TensorSpec(**image | {"m": width, "packed_rows": rows})
        patches = Patches((4, 3), size=(3, 2), step=(2, 3), pad=(1, 1), fill=-9)
        yield TensorSpec(**image | {"m": 12, "patches": patches}, batch=2)
        wide = Patches((2, 2), size=(9, 17), step=(7, 11), pad=(8, 13), fill=5)
        yield TensorSpec(**image | {"m": 4, "patches": wide})
        far = Patches((3, 4), size=(1, 2), step=(9, 9), pad=(0, 3), fill=5)
        yield TensorSpec(**image | {"m": 12, "patches": far})
        beside = Patches((3, 3), size=(4, 5), step=(4, 5), pad=(0, 0), fill=0)
        yield TensorSpec(**image | {"m": 9, "patches": beside, "image": (11, 13)}, batch=2)
        several = {"image": (2, height, width), "m": 24, "patches": patches}
        yield TensorSpec(**image | several)
        rows = PackedRows(5, pad=1, fill=-9)
        yield TensorSpec(**image | {"m": 4, "patches": patches, "packed_rows": rows})
        rows = replace(rows, transposed=True)
        yield TensorSpec(**image | {"m": 3, "patches": patches, "packed_rows": rows})


def test_layouts_are_those_of_the_host(tmp_path):
    rng, config, drawn = np.random.default_rng(SEED), Config(), list(specs())
    rows = [layout_fields(spec, config, tensor=0, offset=0) for spec in drawn]
    text = table("tpulite_layout", "layouts", rows)
    text += "const tpulite_layout *layout(uint32_t i) {return &layouts[i];}\n"
    library = compiled(tmp_path, text)
    library.layout.restype = ctypes.c_void_p
    for number, spec in enumerate(drawn):
        layout = ctypes.c_void_p(library.layout(number))
        limits = np.iinfo(spec.dtype)
        values = rng.integers(limits.min, limits.max, spec.shape).astype(spec.dtype)
        due = pack_activations(values, spec, config)
        # Also where the host's tensor begins within a word, and nothing around is touched.
        for askew in (0, 1) if values.itemsize == 1 else (0,):
            host = np.full(askew + values.size + 4, 0x55, spec.dtype)
            inside = slice(askew, askew + values.size)
            host[inside] = values.reshape(-1)
            got = np.full(due.size + 64, 0x55, np.uint8)
            library.tpulite_pack(layout, pointer(host[askew:]), pointer(got))
            assert (got[: due.size] == due).all() and (got[due.size :] == 0x55).all(), spec
            if (spec.patches is None or spec.patches.tile) and spec.packed_rows is None:
                host[inside] = 0
                library.tpulite_unpack(layout, pointer(got), pointer(host[askew:]))
                back = host[inside].reshape(spec.shape)
                assert (back == unpack_activations(due, spec, config)).all(), spec
                host[inside] = 0x55
                assert (host == 0x55).all(), spec
