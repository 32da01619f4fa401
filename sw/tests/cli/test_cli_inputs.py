"""Inputs of ``run`` as users have them: pictures, floats, folders; and answers with names."""

import json

import numpy as np
import pytest

from tpulite.models import CNN_DIGITS, DigitsTest
from tpulite.runtime.model import Model

pytest_plugins = ("tpulite_testing.command_line",)

COUNT = 12  # more than are printed


@pytest.fixture
def digits(tmp_path):
    """Write pictures of digits, 16 x 16 gray, and the names of their classes."""
    images = pytest.importorskip("PIL.Image", reason="Pillow is missing (pip install pillow)")
    test = DigitsTest.load()
    values = test.images[:COUNT].reshape(-1, 16, 16, 1)
    (tmp_path / "digits").mkdir()
    for number, value in enumerate(values):
        pixels = (value[..., 0].astype(int) + 128).astype(np.uint8)
        kind = (".png", ".bmp", ".PNG")[number % 3]
        images.fromarray(pixels).save(tmp_path / "digits" / f"{number:02}{kind}")
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    return values, test.labels[:COUNT], names


def test_a_folder_of_pictures_is_classified(tpulite, tmp_path, digits):
    values, _, names = digits
    words = ("run", CNN_DIGITS, "--input", "digits", "--labels", "names.txt", "--mhz", 100)
    code, out, err = tpulite(*words, "--output", "y.npy", "--json", "out.json")
    assert (code, err) == (0, "")
    expected = Model.load(CNN_DIGITS).reference(values)["dense"]
    np.testing.assert_array_equal(np.load("y.npy"), expected)
    lines = out.splitlines()
    assert lines[0].startswith("images resized to 16x16 gray (bilinear), pixel range ")
    assert lines[1] == "00.png" and "... and 2 more: --output and --json write all" in lines
    first = expected[0].reshape(-1)
    order = np.argsort(-first.astype(int), kind="stable")[:5]
    assert [line.split()[1] for line in lines[2:7]] == [names[i] for i in order]
    assert lines[-1].startswith("at 100 MHz: ") and lines[-1].endswith(" inferences/s")
    record = json.loads((tmp_path / "out.json").read_text())
    assert [x["class"] for x in record["answers"][0]["outputs"][0]["top"]] == order.tolist()
    assert record["inputs_per_second"] == pytest.approx(1e8 / record["cycles"][0])

    code, out, _ = tpulite(*words, "--limit", 2)
    assert code == 0 and "01.bmp" in out and "02.PNG" not in out


def test_floats_are_quantized_and_integers_must_fit(tpulite, digits):
    values, labels, _ = digits
    q = Model.load(CNN_DIGITS).graph.tensors["image"].quantization
    assert q is not None
    np.save("float.npy", q.real(values))
    np.save("wide.npy", values.astype(np.int64))
    np.save("labels.npy", labels)
    answers = []
    for name in ("float.npy", "wide.npy"):
        words = ("run", CNN_DIGITS, "--input", name, "--labels", "labels.npy")
        code, out, err = tpulite(*words, "--output", "y.npy")
        assert (code, err) == (0, "") and f"{name}[3]\n  dense: int8 [1, 10], dequantized: " in out
        assert out.splitlines()[-1].startswith("accuracy: ")
        answers.append((out.splitlines()[0], np.load("y.npy")))
    assert answers[0][0].startswith("float.npy: float64 quantized as input 'image': int8, scale ")
    assert answers[1][0] == "wide.npy: int64 converted to int8"
    np.testing.assert_array_equal(answers[0][1], answers[1][1])


def test_bad_inputs_are_one_line(tpulite, tmp_path, digits):
    values = digits[0]
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    (tmp_path / "empty").mkdir()
    (tmp_path / "two.txt").write_text("one\ntwo\n")
    np.save("pixels.npy", values.astype(int) + 128)
    np.save("nan.npy", np.full(values.shape, np.nan))
    np.save("words.npy", np.array(["a"]))
    for words, message in (
        (("bad.png",), "bad.png is not a complete PNG, JPEG or BMP file: "),
        (("none.png",), "none.png: no such file or data set"),
        (("empty",), "empty has no files with a suffix of .png, "),
        (("pixels.npy",), "pixels.npy: input 'image' is int8, -128 to 127, and the values (int64)"),
        (
            ("nan.npy",),
            "nan.npy: value [0, 0, 0, 0] is nan: values must be finite",
        ),
        (("words.npy",), "words.npy: input 'image' must be numbers, not <U1"),
        (("digits", "--labels", "two.txt"), "two.txt has 2 names, and the network 10 classes"),
        (("digits", "--labels", "bad.png"), "bad.png is not a text file with a name per line"),
        (("digits", "--pixels", "1"), "--pixels: 1 is not a range LOW:HIGH"),
    ):
        code, out, err = tpulite("run", CNN_DIGITS, "--input", *words)
        assert (code, out) == (2, "") and err.startswith(f"tpulite: {message}"), err
        assert err.count("\n") == 1


def test_images_of_a_data_set_bring_their_classes(tpulite):
    test = DigitsTest.load()
    for network in ("mlp_digits", "cnn_digits"):
        words = ("run", network, "--input", "digits", "--limit", 3, "--batch", 3, "--json", "-")
        code, out, _ = tpulite(*words, "--effort", 500)
        record = json.loads(out)
        classes = [each["outputs"][0]["top"][0]["class"] for each in record["answers"]]
        assert code == 0 and classes == test.labels[:3].tolist() and record["accuracy"] == 1
    np.savez("set.npz", x=test.images[:2], y=[3, 10])
    code, _, err = tpulite("run", "mlp_digits", "--input", "set.npz")
    assert (code, err) == (2, "tpulite: set.npz: labels must be from 0 to 9, not 10\n")
