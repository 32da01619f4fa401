import importlib.util
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.files import load_graph, network_name
from tpulite_testing.files.tflite_builder import Builder


def model(code="RELU") -> bytes:
    b = Builder()
    return b.build(b.unary(code, b.input((1, 4), 0.5), 0.5))


def archive(path, **files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(name.replace("__", "."), data)
    return path


def test_content_counts_and_not_the_name(tmp_path):
    path = tmp_path / "network.jpeg"
    path.write_bytes(model())
    graph = load_graph(str(path))
    assert (graph.name, graph.format, graph.nodes[0].op) == ("network", "tflite", "relu")


def test_an_archive_may_hold_one_network_and_its_float_version(tmp_path):
    path = archive(
        tmp_path / "net.mltk.zip",
        net__tflite=model(),
        net__float32__tflite=model("TANH"),
        net__tflite__summary__txt=b"text",
    )
    graph = load_graph(path)
    assert (graph.name, graph.nodes[0].op) == ("net", "relu")


@pytest.mark.parametrize("count", [0, 2])
def test_an_archive_must_hold_one_network(tmp_path, count):
    path = archive(tmp_path / "a.zip", **{f"{i}__tflite": model() for i in range(count)}, b=b"")
    with pytest.raises(
        ValueError, match=f"a.zip: the archive must hold one .tflite file, not {count}$"
    ):
        load_graph(path)


def test_an_archive_must_hold_a_network_of_the_right_format(tmp_path):
    path = archive(tmp_path / "a.zip", a__tflite=b"something else")
    with pytest.raises(ValueError, match=r"a\.zip: the file in the archive is not a TFLite file$"):
        load_graph(path)


def test_truncated_archives_are_refused(tmp_path):
    whole = archive(tmp_path / "a.zip", a__tflite=model()).read_bytes()
    for length in range(4, len(whole), 7):
        (tmp_path / "b.zip").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"b\.zip: the archive cannot be read: "):
            load_graph(tmp_path / "b.zip")


def test_a_damaged_archive_is_refused(tmp_path):
    whole = bytearray(archive(tmp_path / "a.zip", a__tflite=model()).read_bytes())
    whole[60] ^= 0xFF  # in the compressed data
    (tmp_path / "b.zip").write_bytes(whole)
    with pytest.raises(ValueError, match=r"b\.zip: the archive cannot be read: "):
        load_graph(tmp_path / "b.zip")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.tflite: the file cannot be read: No such file"):
        load_graph(tmp_path / "none.tflite")


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(ValueError, match=r": the file cannot be read: Is a directory$"):
        load_graph(tmp_path)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ValueError, match=r"empty: the file is empty$"):
        load_graph(tmp_path / "empty")


def test_problems_of_the_format_begin_with_the_path(tmp_path):
    path = tmp_path / "cut.tflite"
    path.write_bytes(model()[:100])
    with pytest.raises(ValueError, match=r"^/.*cut\.tflite: the file is corrupt: "):
        load_graph(path)


def test_without_onnx_a_file_of_another_format_tells_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.onnx").write_bytes(b"\x08\x08")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"a\.onnx: .* needs: pip install 'onnx>=.*' 'onnxruntime>=.*'$"
    ):
        load_graph(tmp_path / "a.onnx")


def test_onnx_files_are_read_as_well(tmp_path):
    onnx_builder = pytest.importorskip(
        "tpulite_testing.files.onnx_builder", reason="ONNX is missing"
    )
    b = onnx_builder.OnnxBuilder()
    path = tmp_path / "net.bin"
    path.write_bytes(b.build(b.node("Relu", b.input("x", (1, 4)))))
    graph = load_graph(path)
    assert (graph.name, graph.format, graph.nodes[0].op) == ("net", "onnx", "relu")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("net.tflite", "net"),
        ("mobilenet_v1_0.25_128.tflite", "mobilenet_v1_0.25_128"),
        ("net.int8.onnx", "net.int8"),
        ("net.tflite.zip", "net"),
        ("net_0.25", "net_0.25"),
        (".tflite", ".tflite"),
    ],
)
def test_a_network_is_named_after_its_file_dots_included(file, name):
    assert network_name(Path(file)) == name
