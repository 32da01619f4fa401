"""Classes are the first outputs: in every command, in Python and in C."""

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tpulite as api
from tpulite.firmware import FOLDER
from tpulite.models import MLP_DIGITS, MODELS, DigitsTest

pytest_plugins = ("tpulite_testing.command_line",)

DATA = MODELS / "mlp_digits_test.npz"
OUTPUTS, CLASSES, COUNT = 16, 10, 32


@pytest.fixture
def negative(tmp_path) -> Path:
    """The digits' classifier with such biases that no class is above the padding, which is 0."""
    with np.load(MLP_DIGITS) as file:
        arrays = dict(file)
    arrays["b3"][0, :CLASSES] -= 50_000
    path = tmp_path / "negative.npz"
    np.savez(path, **arrays)
    return path


def by_definition(path: Path, images: np.ndarray) -> np.ndarray:
    """Return K of the source document, in numpy; no sum has more than 24 bits."""
    values = images
    with np.load(path) as file:
        for i, low in enumerate((0, 0, -128), start=1):
            sums = values.astype(np.int32) @ file[f"W{i}"].astype(np.int32) + file[f"b{i}"]
            scaled = np.rint(sums.astype(np.float32) * file[f"scale{i}"])
            values = np.clip(scaled, low, 127).astype(np.int8)
    return values


def test_the_answer_is_the_largest_of_the_first_ten(tpulite, negative):
    digits = DigitsTest.load()
    images, labels = digits.images[:COUNT], digits.labels[:COUNT]
    outputs = by_definition(negative, images)
    wanted = outputs[:, :CLASSES].argmax(axis=1)
    right = int((wanted == labels).sum())
    assert (outputs.argmax(axis=1) >= CLASSES).all() and right > COUNT / 2
    np.save("x.npy", images)
    np.save("y.npy", labels)
    words = (negative, "--input", "x.npy", "--labels", "y.npy", "--batch", 16, "--json", "-")
    code, out, _ = tpulite("run", *words)
    record = json.loads(out)
    assert code == 0 and record["accuracy"] == right / COUNT and record["classes"] == CLASSES
    assert [each["outputs"][0]["top"][0]["class"] for each in record["answers"]] == wanted.tolist()
    code, out, _ = tpulite("compile", negative, "--batch", 16, "-o", "net.tpulite")
    assert code == 0 and "classes: 10" in tpulite("info", "net.tpulite")[1]
    words = ("--data", DATA, "--limit", COUNT, "--workers", 1, "--json", "-")
    code, out, _ = tpulite("evaluate", "net.tpulite", *words)
    assert code == 0 and json.loads(out)["right"] == right
    results = api.run(negative, images, batch=16)
    np.testing.assert_array_equal(results.output, outputs)
    np.testing.assert_array_equal(results.classes, wanted)


def test_the_option_says_otherwise_and_is_kept(tpulite, negative):
    def classes(*words):
        code, out, _ = tpulite("run", *words, "--json", "-")
        assert code == 0
        return json.loads(out)["classes"]

    assert classes(negative, "--classes", 3) == 3
    assert tpulite("compile", negative, "--classes", 12, "-o", "net.tpulite")[0] == 0
    assert classes("net.tpulite") == 12
    assert classes("net.tpulite", "--classes", 4) == 4
    assert api.load("net.tpulite", classes=5).graph.classes == 5
    assert "\nclasses: 10, the first values of the output\n" in tpulite("inspect", negative)[1]
    code, out, _ = tpulite("run", negative, "--classes", 1)
    assert code == 0 and out.count("  class 0 of 1\n") == 1
    Path("names.txt").write_text("\n".join("abcd"))
    words = (negative, "--classes", 4, "--labels", "names.txt", "--input", "x.npy")
    np.save("x.npy", DigitsTest.load().images[:1])
    code, out, _ = tpulite("run", *words)
    assert code == 0 and {line.split()[-1] for line in out.splitlines()[1:5]} == set("abcd")


@pytest.mark.parametrize("wrong", [0, -1, 17])
def test_wrong_classes_are_refused_in_one_line(tpulite, wrong):
    message = f"--classes must be from 1 to 16, the values of the output, not {wrong}"
    for command in ("run", "compile", "export", "evaluate"):
        more = {"export": ("-o", "out"), "evaluate": ("--data", DATA)}.get(command, ())
        code, out, err = tpulite(command, MLP_DIGITS, "--classes", wrong, *more)
        assert (code, out) == (2, "") and err == f"tpulite: {MLP_DIGITS}: {message}\n"
    assert [path.name for path in Path().iterdir()] == []


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)")
@pytest.mark.parametrize(("words", "classes"), [((), CLASSES), (("--classes", 16), OUTPUTS)])
def test_c_answers_with_the_largest_class(tpulite, words, classes):
    code, _, _ = tpulite("export", MLP_DIGITS, "-o", "c", "--name", "net", *words)
    assert code == 0 and f"#define NET_CLASSES {classes}u" in Path("c/net.h").read_text()
    assert json.loads(Path("c/net.json").read_text())["classes"] == classes
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Ic"]
    sources = ["c/net.c", *FOLDER.glob("tpulite*.c")]
    subprocess.run(["gcc", *flags, *sources, "-o", "net.so"], check=True)
    library = ctypes.CDLL(str(Path("net.so").resolve()))
    network = ctypes.byref(ctypes.c_char.in_dll(library, "net_network"))
    values = np.zeros(OUTPUTS, np.int8)
    values[:CLASSES] = [-9, -8, -7, -128, -3, -3, -4, -5, -6, -7]
    found = library.tpulite_class(network, ctypes.c_void_p(values.ctypes.data))
    assert found == int(values[:classes].argmax())
