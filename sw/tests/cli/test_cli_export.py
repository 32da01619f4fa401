import json

import numpy as np
import pytest

from tpulite.models import CNN_DIGITS
from tpulite.runtime.model import Model

pytest_plugins = ("tpulite_testing.command_line",)


def test_a_network_is_written_with_its_sizes(tpulite, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    x = np.random.default_rng(3).integers(-128, 128, (1, 16, 16, 1), np.int8)
    np.save(tmp_path / "x.npy", x)
    words = ("export", CNN_DIGITS, "-o", "out", "--input", "x.npy")
    code, out, err = tpulite(*words, "--json", "sizes.json")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    sizes = json.loads((tmp_path / "sizes.json").read_text())
    program = Model.load(CNN_DIGITS).programs[0]
    assert sizes["constants"] == len(program.constants)
    folder = tmp_path / "out"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {str(path.relative_to(tmp_path)) for path in files} == set(sizes["files"])
    image = (folder / "cnn_digits_image.bin").read_bytes()
    assert len(image) == sizes["image"] and image.endswith(program.encode())
    assert program.constants == image[: len(program.constants)]
    assert (folder / "cnn_digits_input_0.bin").read_bytes() == x.tobytes()
    due = Model.load(CNN_DIGITS).reference(x)["dense"]
    assert (folder / "cnn_digits_output_0.bin").read_bytes() == due.tobytes()
    described = json.loads((folder / "cnn_digits.json").read_text())
    assert [tensor["place"] for tensor in described["tensors"]] == ["input", "output"]
    assert described["tensors"][1]["zero_point"] == [16]


def product():
    """Return a builder with a quantized product, its input and its result."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing")
    from tpulite_testing.files.onnx_builder import OnnxBuilder

    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 8)), 0.05, 7, "uint8")
    weight = b.weight(np.eye(8, dtype=np.int8), 0.01)
    return b, x, b.quantize(b.node("MatMul", x, weight), 0.05, 3, "uint8")


def test_what_a_library_computes_byte_by_byte_is_exported(tpulite, tmp_path):
    b, x, y = product()
    (tmp_path / "net.onnx").write_bytes(b.build(b.quantize(b.node("Add", x, y), 0.1, 3, "uint8")))
    code, _, err = tpulite("export", "net.onnx", "-o", "out")
    assert (code, err) == (0, "")
    assert ".combine = tpulite_pair" in (tmp_path / "out" / "net.c").read_text()


@pytest.mark.parametrize("lacks_tensor", [False, True])
def test_programs_beside_a_librarys_part_are_recorded(tpulite, tmp_path, monkeypatch, lacks_tensor):
    if lacks_tensor:
        monkeypatch.setattr("tpulite.export.references._can_run", lambda model: False)
    b, x, y = product()
    y = b.quantize(b.node("Add", x, y), 0.1, 3, "uint8")
    y = b.quantize(b.node("MatMul", y, b.weight(np.eye(8, dtype=np.int8), 0.01)), 0.05, 3, "uint8")
    y = b.quantize(b.node("Add", x, y), 0.1, 3, "uint8")
    (tmp_path / "net.onnx").write_bytes(b.build(y))
    assert len(Model.load(tmp_path / "net.onnx").programs) == 1  # the library computes the rest
    code, out, err = tpulite("export", "net.onnx", "-o", "out")
    assert (code, err) == (0, "")
    said = (
        "out: no self-test on a PC, as the CPU parts of this network are computed by ONNX Runtime "
        "as one; run net_selftest() on the chip"
    )
    assert (said in " ".join(out.split())) == lacks_tensor
    assert (tmp_path / "out" / "pc" / "selftest.c").exists() != lacks_tensor


def test_an_edited_main_is_kept_and_named(tpulite, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "main.c").write_text("int main(void) { return 0; }\n")
    code, out, err = tpulite("export", CNN_DIGITS, "-o", "out")
    assert (code, err) == (0, "")
    kept = " ".join(out.split()).replace("\n", " ")
    assert kept.endswith("out/main.c: kept, it was edited; delete it to get a new one")


def test_networks_that_need_a_library_are_refused(tpulite, tmp_path):
    b, _, y = product()
    share = b.quantize(b.node("LogSoftmax", y, name="share"), 1 / 256, 255, "uint8")
    (tmp_path / "net.onnx").write_bytes(b.build(share))
    code, out, err = tpulite("export", "net.onnx", "-o", "out")
    assert (code, out) == (2, "")
    assert err.startswith(
        "tpulite: net cannot be exported: firmware has no function for LogSoftmax 'share' ("
    )
    way = f"; with --outputs {y} the network ends before that\n"
    assert err.endswith(way) and err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert tpulite("export", "net.onnx", "-o", "out", "--outputs", y)[0] == 0
    code, _, err = tpulite("export", CNN_DIGITS, "-o", "out", "--resident")
    assert code == 2 and "--resident cannot be exported" in err
