import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tpulite.cli import workers
from tpulite.models import CNN_DIGITS, MLP_DIGITS, MODELS, DigitsTest
from tpulite.runtime.model import Model
from tpulite.runtime.pictures import pixels_to_inputs

pytest_plugins = ("tpulite_testing.command_line",)

DIGITS = MODELS / "mlp_digits_test.npz"
PIXELS = np.random.default_rng(5).integers(0, 256, (24, 16, 16), np.uint8)
LABELS = np.arange(24) % 10


@pytest.fixture(scope="module")
def table() -> list[list[int]]:
    """What images are taken for, by the definition of the network."""
    model = Model.load(CNN_DIGITS)
    inputs = pixels_to_inputs(PIXELS, model.graph, model.exactness)[:, 0]
    answers = model.reference(inputs)[model.graph.outputs[0]].reshape(24, -1).argmax(axis=1)
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (LABELS, answers), 1)
    return counts.tolist()


def test_digits_are_as_right_as_by_definition_and_answers_are_kept(tpulite, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    digits, model = DigitsTest.load(), Model.load(MLP_DIGITS)
    outputs = model.reference(digits.images[:60])["output"]
    words = ("evaluate", MLP_DIGITS, "--data", DIGITS, "--limit", 60, "--batch", 8, "--workers", 1)
    code, out, err = tpulite(*words, "--json", "run.json", "--csv", "run.csv")
    right = round(digits.accuracy(outputs) * 60)
    assert (code, err) == (0, "") and f"accuracy: {right / 60:.2%} of 60 images" in out
    assert max(map(len, out.splitlines()[:-2])) <= 80
    rows = list(csv.DictReader(Path("run.csv").read_text().splitlines()))
    assert [int(row["answer"]) for row in rows] == outputs.argmax(axis=1).tolist()
    assert json.loads(Path("run.json").read_text())["right"] == right
    monkeypatch.setattr(workers, "LocalExecutor", Asleep)
    assert tpulite(*words) == (0, out, "")


class Asleep:
    """An executor that nobody may ask for anything."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, tasks):
        assert not list(tasks)
        yield from ()


def test_folders_of_pictures_and_an_array_give_the_same(tpulite, tmp_path, table):
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    np.savez("set.npz", x=PIXELS, y=LABELS)
    for number, (pixels, label) in enumerate(zip(PIXELS, LABELS.tolist(), strict=True)):
        folder = tmp_path / "set" / f"digit {label}"
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(pixels).save(folder / f"{number:02}.png")
    lines = [f"digit {y}/{i:02}.png,{y}" for i, y in enumerate(LABELS.tolist())]
    (tmp_path / "labels.csv").write_text("\n".join(["file,class", *lines]))
    (tmp_path / "names").write_text("\n".join(f"digit {i}" for i in range(10)))
    for words in (
        ("set.npz", "--oracle", "litert-ref"),
        ("set", "--names", "names"),
        ("set", "--labels", "labels.csv"),
    ):
        code, out, err = tpulite(
            "evaluate", CNN_DIGITS, "--workers", 1, "--data", *words, "--json", "-"
        )
        record = json.loads(out)
        assert (code, err) == (0, "") and record["table"] == table, words
        assert record["right"] == sum(table[i][i] for i in range(10))
        assert sum(each["images"] for each in record["confusions"]) == 24 - record["right"]
        assert record["equal"] == (24 if "--oracle" in words else None)


def test_flat_images_have_the_shape_of_the_input(tpulite):
    words = ("--data", DIGITS, "--limit", 16, "--workers", 1, "--json", "-")
    code, out, _ = tpulite("evaluate", CNN_DIGITS, *words)
    digits = DigitsTest.load()
    images = digits.images[:16].reshape(-1, 16, 16, 1)
    outputs = Model.load(CNN_DIGITS).reference(images)["dense"]
    assert code == 0 and json.loads(out)["accuracy"] == digits.accuracy(outputs)


def test_bits_that_differ_are_counted(tpulite):
    np.savez("set.npz", x=PIXELS)
    words = ("--data", "set.npz", "--oracle", "litert-ref", "--exact", "ort", "--workers", 1)
    code, out, _ = tpulite("evaluate", CNN_DIGITS, *words)
    assert (
        code == 1
        and "compared with litert-ref: bit-exact outputs for " in out
        and "24 of 24 images" not in out
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none.npz",), "none.npz: no such file or data set"),
        (("text.npz",), "text.npz is not a .npy file"),
        (("other.npz",), "other.npz must hold 'x' and 'y' or "),
        (("small.npz",), "small.npz: images must be 16x16x1 for input "),
        (("few.npz",), "few.npz must hold 24 integers, a class per image"),
        (("wrong.npz",), "wrong.npz: classes must be from 0 to 9, not 10"),
        (("bare.npz",), "bare.npz has no classes: give them with --labels"),
        (("bare.npz", "--labels", "text.npz"), "text.npz must be a .npy file"),
        (("set.npz", "--labels", "labels.csv"), "set.npz has its own classes, 'y'"),
        (("folder",), "folder has 1 folders, and the network 10 classes"),
        (("folder", "--labels", "labels.csv"), "labels.csv, line 2: no such file: folder/none.png"),
        (("folder", "--labels", "no.csv"), "no.csv, line 1: no such file: folder/none.png"),
        (("folder/a",), "folder/a holds no images"),
        (("set.npz", "--device", "none"), "none: no such device"),
        (("set.npz", "--workers", 1, "--scheduler", "tcp://x:1"), "cannot be used together"),
        (("set.npz", "--oracle", "ort"), "--oracle ort runs .onnx files"),
    ],
)
def test_bad_input_is_told_in_a_line(tpulite, tmp_path, words, message):
    (tmp_path / "folder" / "a").mkdir(parents=True)
    (tmp_path / "text.npz").write_text("text")
    (tmp_path / "labels.csv").write_text("file,class\nnone.png,1\n")
    (tmp_path / "no.csv").write_text("none.png,1\n")
    np.savez("other.npz", z=PIXELS)
    np.savez("bare.npz", x=PIXELS)
    np.savez("set.npz", x=PIXELS, y=LABELS)
    np.savez("small.npz", x=PIXELS[:, 1:], y=LABELS)
    np.savez("few.npz", x=PIXELS, y=LABELS[1:])
    np.savez("wrong.npz", x=PIXELS, y=LABELS + 1)
    code, out, err = tpulite("evaluate", CNN_DIGITS, "--data", *words)
    assert (code, out) == (2, "") and err.count("\n") == 1 and message in err


def test_images_are_rows_of_a_batch_that_the_file_fixes(tpulite, tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
    from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx

    b, (scale, zero) = OnnxBuilder(), (np.float32(0.1), np.int8(0))
    weights = np.random.default_rng(3).integers(-9, 10, (256, 10)).astype(np.int8)
    x, wide = b.input("x", (16, 256), "int8"), np.float32(4)
    data = b.build(b.node("QLinearMatMul", x, scale, zero, weights, scale, zero, wide, zero))
    path = tmp_path / "sixteen.onnx"
    path.write_bytes(data)
    digits = DigitsTest.load()
    images = np.concatenate([digits.images[:20], np.zeros((12, 256), np.int8)])
    (outputs,) = (
        np.concatenate(y)
        for y in zip(*(run_onnx(data, part) for part in (images[:16], images[16:])), strict=True)
    )
    right = int((outputs[:20].argmax(axis=1) == digits.labels[:20]).sum())
    words = ("evaluate", path, "--data", DIGITS, "--limit", 20, "--workers", 1, "--oracle", "ort")
    code, out, err = tpulite(*words)
    assert (code, err) == (0, "")
    assert f"accuracy: {right / 20:.2%} of 20 images" in out
    assert "bit-exact outputs for 20 of 20 images" in out
