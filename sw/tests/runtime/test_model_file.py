import io
import json
import zipfile

import numpy as np
import pytest

from tpulite.archive import members, packed
from tpulite.graph.graph import Node
from tpulite.models import CNN_DIGITS, DigitsTest
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import is_model_file, load_model_file, save_model
from tpulite.runtime.model_graph import graph_from_json, graph_to_json
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.graphs.model_graphs import chain, tensor


@pytest.fixture
def saved(tmp_path):
    model = Model.load(CNN_DIGITS, exact="litert-xnnpack")
    path = tmp_path / "cnn.tpulite"
    save_model(model, path)
    return model, path


def test_a_saved_model_runs_as_before(saved, monkeypatch):
    model, path = saved
    assert is_model_file(path) and not is_model_file(CNN_DIGITS)
    loaded = load_model_file(path)
    assert loaded.exactness == model.exactness and loaded.config == model.config
    assert loaded.graph.dump() == model.graph.dump()
    x = DigitsTest.load().images[:2].reshape(-1, 16, 16, 1)
    np.testing.assert_array_equal(loaded.reference(x)["dense"], model.reference(x)["dense"])
    # Nothing is compiled again.
    monkeypatch.setattr("tpulite.runtime.model_compile.compile_parts", None)
    np.testing.assert_array_equal(loaded.run(x).output, model.run(x).output)


def test_equal_models_give_equal_bytes(saved, tmp_path):
    _, path = saved
    save_model(load_model_file(path), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_what_does_not_shrink_is_stored_as_it_is():
    noise = np.random.default_rng(1).bytes(100_000)
    parts = {"weights": noise, "small": noise[:100], "sparse": bytes(100_000), "empty": b""}
    data = packed("model", 5, {"text": "tensor " * 1000}, parts)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = {x.filename: (x.file_size, x.compress_size) for x in archive.infolist()}
    assert sizes["weights"] == (100_000, 100_000)
    assert sizes["small"] == (100, 100)
    assert sizes["sparse"][1] < 1000
    assert sizes["empty"] == (0, 0)
    assert sizes["model.json"][1] < 1000
    assert members(data) == parts | {"model.json": members(data)["model.json"]}


def test_other_files_are_refused(saved, tmp_path):
    _, path = saved
    whole = path.read_bytes()
    for content in (b"", b"garbage", whole[: len(whole) // 2]):
        (tmp_path / "bad").write_bytes(content)
        assert not is_model_file(tmp_path / "bad")
        with pytest.raises(ValueError, match=r"bad is not a tpulite model file: "):
            load_model_file(tmp_path / "bad")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "version 99, this is 5"),
        ({"format": "other"}, "format 'other'"),
        ({"exactness": "nobody"}, "its contents do not match their checksum"),
        ({"options": {"batch": "x"}}, "its contents do not match"),
        ({"sha256": 7}, "its contents do not match"),
    ],
)
def test_changed_files_are_refused(saved, tmp_path, change, message):
    _, path = saved
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "new", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "model.json":
                content = json.dumps(json.loads(content) | change)
            new.writestr(name, content)
    with pytest.raises(ValueError, match=message):
        load_model_file(tmp_path / "new")


def hard_swish_network(path):
    """Write Conv -> HardSwish in QDQ form; return the path."""
    b, rng = OnnxBuilder(), np.random.default_rng(2)
    weight = rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    x = b.quantize(b.input("x", (1, 3, 8, 8)), 0.02, 0)
    y = b.quantize(b.node("Conv", x, b.weight(weight, 0.01)), 0.05, 0)
    path.write_bytes(b.build(b.quantize(b.node("HardSwish", y), 0.04, -110)))
    return path


def _places(value, path=()):
    """Yield the paths of all fields of a record."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from _places(item, (*path, key))


@pytest.mark.parametrize("seed", range(3))
def test_wrong_fields_give_a_model_or_one_line(saved, tmp_path, seed):
    _, path = saved
    rng = np.random.default_rng(seed)
    with zipfile.ZipFile(path) as archive:
        metadata = json.loads(archive.read("model.json"))
        parts = {name: archive.read(name) for name in archive.namelist() if name != "model.json"}
    for key in ("format", "sha256"):
        del metadata[key]
    version, places = metadata.pop("version"), list(_places(metadata))
    wrong = [None, -1, 0, 7, 1 << 40, "x", [], {}, [1], True, 1.5, [["a", None]]]
    for _ in range(40):
        changed = json.loads(json.dumps(metadata))
        *outer, last = places[rng.integers(len(places))]
        record = changed
        for key in outer:
            record = record[key]
        record[last] = wrong[rng.integers(len(wrong))]
        (tmp_path / "new").write_bytes(packed("model", version, changed, parts))
        try:
            model = load_model_file(tmp_path / "new")
        except ValueError as error:
            assert str(error).startswith(str(tmp_path / "new"))
        else:
            assert model.summary()


def test_attributes_that_a_file_cannot_hold_are_refused_when_it_is_written():
    tensors = [tensor("x", (1,), "int8"), tensor("y", (1,), "int8")]
    graph = chain([Node("n", "op", ("x",), ("y",), {"kind": {1, 2}}, "OP")], tensors)
    with pytest.raises(TypeError, match=r"an attribute of a node is a set: \{1, 2\}"):
        graph_to_json(graph)


def test_a_chain_of_float_operators_is_read_as_it_was_written(tmp_path):
    model = Model.load(hard_swish_network(tmp_path / "swish.onnx"))
    assert "expression" in [node.op for node in model.graph.nodes]
    save_model(model, tmp_path / "swish.tpulite")
    loaded = load_model_file(tmp_path / "swish.tpulite")
    assert loaded.graph.dump() == model.graph.dump()
    x = np.random.default_rng(3).normal(size=(1, 3, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(loaded.run(x).output, model.run(x).output)


def test_graphs_survive_with_all_kinds_of_attributes():
    attributes = {
        "pair": (1, 2),
        "nested": ((1.5, "a"), ()),
        "number": np.float32(0.1),
        "limit": float("inf"),
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "flag": True,
        "nothing": None,
        "text": "a",
        "bytes": b"\xff\x00a",
        "list": [1, (2, [3])],
        "scalars": (np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.float64(0.1)),
        "steps": (("mul", (-1, 0), {"alpha": 0.1, 3: {}}),),
        "arrays": {"scale": np.float32([0.5]), "array": ()},
    }
    weight = tensor("w", (2,), "float32", data=np.array([1, np.nan], np.float32))
    tensors = [tensor("x", (1, 2), "uint8", (0.1, 7)), weight, tensor("y", (2,), "int8")]
    graph = chain([Node("n", "op", ("x", "", "w"), ("y",), attributes, "OP")], tensors)
    metadata, arrays = graph_to_json(graph)
    again = graph_from_json(json.loads(json.dumps(metadata)), arrays)
    (node,) = again.nodes
    # A representation tells types apart that compare equal: tuples, lists, and scalars of NumPy.
    assert repr(dict(node.attributes)) == repr(attributes)
    assert node["array"].dtype == np.int16
    q = again.tensors["x"].quantization
    assert q is not None and q.scale[0] == np.float32(0.1) and q.zero_point[0] == 7
    np.testing.assert_array_equal(again.tensors["w"].data, weight.data)


@pytest.mark.parametrize("scales", [0.1, [], [0.1, 0.2]])
def test_scales_that_are_no_list_of_zero_points_are_refused(scales):
    tensors = [tensor("x", (1, 2), "uint8", (0.1, 7)), tensor("y", (2,), "int8")]
    metadata, arrays = graph_to_json(chain([Node("n", "op", ("x",), ("y",), {}, "OP")], tensors))
    plain = json.loads(json.dumps(metadata))
    (x,) = (each for each in plain["tensors"] if each["name"] == "x")
    x["quantization"][0] = scales
    with pytest.raises(ValueError, match="tensor 'x' has the scales"):
        graph_from_json(plain, arrays)
