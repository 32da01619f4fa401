"""Chains of dense layers from arrays, in memory and as .npz files."""

import io

import numpy as np
import pytest

from tpulite.frontend.dense_chain import dense_chain, load_dense_chain, save_dense_chain
from tpulite.frontend.files import load_graph

W1, W2 = np.ones((3, 4), np.int8), np.ones((4, 2), np.int8)
B1, B2 = np.arange(4, dtype=np.int32), np.arange(2, dtype=np.int32)
GOOD = {"W1": W1, "b1": B1, "scale1": np.float32(0.5), "W2": W2, "b2": B2, "scale2": np.float32(2)}


def npz(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def test_a_file_is_read_as_it_was_written(tmp_path):
    path, again = tmp_path / "net.npz", tmp_path / "again.npz"
    channels = np.array([0.5, 0.25, 1, 2], np.float32)
    save_dense_chain(path, dense_chain([W1, W2], [B1[None], B2], [channels, 2.0], classes=1))
    graph = load_graph(path)
    save_dense_chain(again, graph)
    assert again.read_bytes() == path.read_bytes()
    assert (graph.name, graph.classes) == ("net", 1)
    assert [(node.op, node["activation"]) for node in graph.nodes] == [
        *(("dense", "relu"), ("dense", "none"))
    ]
    quantization = graph.tensors["dense1.weight"].quantization
    assert quantization is not None and quantization.scale.tolist() == channels.tolist()
    with np.load(path) as file:
        kinds = {name: (x.dtype.name, x.shape) for name, x in file.items()}
    assert kinds == {
        "W1": ("int8", (3, 4)),
        "b1": ("int32", (1, 4)),
        "scale1": ("float32", (4,)),
        "W2": ("int8", (4, 2)),
        "b2": ("int32", (1, 2)),
        "scale2": ("float32", ()),
        "classes": ("int64", ()),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"W1": W1.astype(np.float32)}, "W1 must be int8 [inputs, outputs], not float32 [3, 4]"),
        ({"W1": W1[0]}, "W1 must be int8 [inputs, outputs], not int8 [4]"),
        ({"W2": W1}, "W2 must have 4 rows, as many as W1 has columns, not 3"),
        ({"b2": B1}, "b2 must be int32 [2] or [1, 2], not int32 [4]"),
        ({"b1": B1.astype(np.int64)}, "b1 must be int32 [4] or [1, 4], not int64 [4]"),
        (
            {"scale1": np.array(1)},
            "float32 or float64, one number or [4], not int64",
        ),
        ({"scale1": np.array(1e300)}, "scale1 must be positive and finite, not inf"),
        ({"scale2": np.ones(3, np.float32)}, "one number or [2], not float32 [3]"),
        ({"scale2": np.float32(0)}, "scale2 must be positive and finite, not 0"),
        ({"scale2": np.float32("nan")}, "scale2 must be positive and finite, not nan"),
        ({"classes": 3}, "classes must be from 1 to 2, the values of the output, not 3"),
        ({"classes": 0}, "classes must be from 1 to 2, the values of the output, not 0"),
        ({"classes": 1.5}, "classes must be one integer, not float64 []"),
        ({"b2": None}, "b2 is missing: each layer has W, b and scale"),
        ({"W4": W2}, "W3 is missing: each layer has W, b and scale"),
        ({"weights": W2}, "unknown array 'weights'; a network holds W1, b1, scale1, W2,"),
    ],
)
def test_a_wrong_array_is_named(changes, message):
    arrays = {name: x for name, x in (GOOD | changes).items() if x is not None}
    with pytest.raises(ValueError) as error:
        load_dense_chain(npz(**arrays), "net")
    assert message in str(error.value)


def test_other_archives_of_arrays_say_what_is_expected(tmp_path):
    (tmp_path / "x.npz").write_bytes(npz(x=W1))
    with pytest.raises(ValueError, match=r"x\.npz: the arrays of a network are W1, .* holds x$"):
        load_graph(tmp_path / "x.npz")
    damaged = bytearray(npz(**GOOD))
    damaged[damaged.index(b"NUMPY")] = 0
    with pytest.raises(ValueError, match="the archive"):
        load_dense_chain(bytes(damaged), "net")


def test_a_factor_of_float64_is_rounded_to_float32():
    graph = load_dense_chain(npz(**GOOD | {"scale1": np.array(0.1)}), "net")
    quantization = graph.tensors["dense1.weight"].quantization
    assert quantization is not None and quantization.scale.tolist() == [np.float32(0.1)]


@pytest.mark.parametrize("data", [b"W1 = 1, 2, 3", npz()])
def test_a_npz_file_without_arrays_is_said_to_be_none(tmp_path, data):
    (tmp_path / "text.npz").write_bytes(data)
    message = r"text\.npz: this is not an \.npz archive of numpy\.savez$"
    with pytest.raises(ValueError, match=message):
        load_graph(tmp_path / "text.npz")


def test_lists_have_one_length_and_at_least_one_layer():
    with pytest.raises(ValueError, match="not 2 weights, 1 biases and 2 scales"):
        dense_chain([W1, W2], [B1], [1.0, 1.0])
    with pytest.raises(ValueError, match="W1 is missing"):
        dense_chain([], [], [])
    with pytest.raises(ValueError, match=r"^weights must be a list, .* layer, not int8 \[3, 4\]$"):
        dense_chain(W1, B1[None], np.float32(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^scales must be a list, with one for each layer"):
        dense_chain([W1], [B1], np.float32(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^classes must be from 1 to 4, .*, not 'ten'$"):
        dense_chain([W1], [B1], [1.0], classes="ten")  # type: ignore[arg-type]
