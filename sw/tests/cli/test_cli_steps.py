"""``run --steps``: the eleven matrices of the source document, computed by a device."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import tpulite as api
from tpulite.cli.steps_report import StepsReport
from tpulite.models import MLP_DIGITS, DigitsTest
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.model_steps import Step, run_steps
from tpulite_testing.files.onnx_builder import OnnxBuilder

pytest_plugins = ("tpulite_testing.command_line",)

COUNT = 16
WORDS = ("run", "mlp_digits", "--input", "digits", "--limit", COUNT, "--batch", COUNT)


def by_the_document(x: np.ndarray) -> dict[str, np.ndarray]:
    """Return A to K as the document writes them; no sum has more than 24 bits."""
    steps, names = {}, iter("ABCDEFGHIJK")
    with np.load(MLP_DIGITS) as file:
        for i in (1, 2, 3):
            sums = x.astype(np.int32) @ file[f"W{i}"].astype(np.int32)
            biased = sums + file[f"b{i}"]
            scaled = np.rint(biased.astype(np.float32) * file[f"scale{i}"])
            x = np.clip(scaled, -128, 127).astype(np.int8)
            steps |= {next(names): each for each in (sums, biased, x)}
            if i < 3:
                steps[next(names)] = x = np.maximum(x, 0)
    return steps


def fixed(rows: int) -> bytes:
    """Return the document's network as an ONNX file for so many inputs at once."""
    b, unit, zero = OnnxBuilder(), np.float32(1), np.int8(0)
    x = b.input("x", (rows, 256), "int8")
    with np.load(MLP_DIGITS) as file:
        for i in (1, 2, 3):
            layer = file[f"W{i}"], file[f"scale{i}"], zero, file[f"b{i}"][0]
            x = b.node("QGemm", x, unit, zero, *layer, unit, zero)
            x = b.node("Relu", x) if i < 3 else x
    return b.build(x)


def test_every_matrix_of_the_document_is_computed_by_the_machine(tpulite, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = tpulite(*WORDS, "--steps", "steps.npz", "--effort", 0)
    assert (code, err) == (0, "") and max(map(len, out.splitlines()[-15:])) <= 80
    assert "11 steps on golden: every element equals numpy's; K is the output" in out
    images = DigitsTest.load().images[:COUNT]
    wanted = by_the_document(images)
    with np.load("steps.npz") as file:
        assert set(file) == {"x", *wanted}
        np.testing.assert_array_equal(file["x"], images)
        for name, values in wanted.items():
            assert file[name].dtype == values.dtype, name
            np.testing.assert_array_equal(file[name], values, err_msg=name)
    rows = {line.split()[0]: line for line in out.splitlines() if line[:1] in wanted}
    assert rows["J"].split()[1:5] == ["I", "+", "b3", "16x16"]
    assert f"{wanted['B'].min():,}" in rows["B"] and f"{wanted['B'].max():,}" in rows["B"]


def test_the_record_has_the_steps_without_a_file(tpulite):
    code, out, _ = tpulite("run", "mlp_digits", "--steps", "--effort", 0, "--json", "-")
    steps = json.loads(out)["steps"]
    assert code == 0 and [step["name"] for step in steps] == list("ABCDEFGHIJK")
    assert steps[0] | {"min": 0, "max": 0} == {
        **{"name": "A", "formula": "x @ W1", "shape": [1, 64], "dtype": "int32"},
        **{"min": 0, "max": 0, "different": 0},
    }
    assert not list(Path().glob("*.npz"))


def test_a_machine_that_errs_is_told(tpulite, monkeypatch):
    read = GoldenDevice.read

    def damaged(self, address, size):
        return read(self, address, size) ^ 1

    monkeypatch.setattr(GoldenDevice, "read", damaged)
    code, _, err = tpulite("run", "mlp_digits", "--steps", "--effort", 0)
    assert code == 2 and err.startswith("tpulite: steps A, ") and err.endswith("on golden\n")


@pytest.mark.parametrize(
    ("network", "words"),
    [("cnn_digits", "and 'image' is not an int8 matrix"), ("small.tpl", "--steps")],
)
def test_other_networks_are_refused_in_one_line(tpulite, network, words):
    small = [np.ones((4, 4), np.int8)], [np.ones(4, np.int32)], [0.5]
    api.mlp(*small, config="4x4", effort=0).programs[0].save(Path("small.tpl"))
    code, out, err = tpulite("run", network, "--steps")
    assert (code, out) == (2, "") and words in err and len(err.splitlines()) == 1


def test_the_widest_numbers_leave_names_shapes_and_ends_whole():
    ends = np.iinfo(np.int32)
    values = np.full((1000, 4), ends.min, np.int32)
    values[0, 3] = ends.max
    step, text = Step("A", "int8(B * scale1)", values, values), io.StringIO()
    StepsReport([step], values, values, "golden").print(Console(file=text, width=80))
    (row,) = (line for line in text.getvalue().splitlines() if line.startswith("A "))
    assert len(row) <= 80 and row.endswith("…")
    whole = ("A", "int8(B", "*", "scale1)", "1000x4", "int32", f"{ends.min:,}", f"{ends.max:,}")
    assert tuple(row.split()[: len(whole)]) == whole


def test_a_matrix_that_the_file_fixes_has_its_rows_shown(tpulite):
    Path("fixed.onnx").write_bytes(fixed(COUNT))
    np.save("x.npy", DigitsTest.load().images[:COUNT])
    words = ("fixed.onnx", "--input", "x.npy", "--classes", 10, "--effort", 0)
    code, out, _ = tpulite("run", *words, "--steps", "steps.npz")
    wanted = by_the_document(np.load("x.npy"))
    assert code == 0 and "11 steps on golden: every element equals numpy's; K is" in out
    with np.load("steps.npz") as file:
        assert file["x"].shape == (COUNT, 256)
        for name, values in wanted.items():
            np.testing.assert_array_equal(file[name], values, err_msg=name)
    classes = wanted["K"][:, :10].argmax(axis=1)
    assert f"  classes {' '.join(map(str, classes))} of 10\n" in out


def test_any_bias_and_zero_point_is_added_by_the_machine():
    rng = np.random.default_rng(3)
    weights = [rng.integers(-128, 128, shape, np.int8) for shape in ((5, 20), (20, 3))]
    biases = [rng.integers(-(1 << 21), 1 << 21, n).astype(np.int32) for n in (20, 3)]
    biases[0][:3] = 127 * 127, -127 * 127 - 1, 0
    model = api.mlp(weights, biases, [3e-5, 2e-5], config="4x4", effort=0)
    steps = run_steps(model, rng.integers(-128, 128, (3, 5), np.int8))
    assert [step.different for step in steps] == [0] * 7
    np.testing.assert_array_equal(steps[1].values, steps[0].values + biases[0])
    with pytest.raises(ValueError, match=r"^Input must be int8 \[n, 5\], not int8 \[2, 6\]$"):
        run_steps(model, np.zeros((2, 6), np.int8))
