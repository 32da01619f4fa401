"""Tables in which all time steps of an operator are one line."""

import numpy as np
import pytest

from tpulite.report.profile import profile_model
from tpulite.report.steps import join_steps
from tpulite.runtime.model import Model
from tpulite_testing.files.recurrent import Lstm, add_lstm
from tpulite_testing.files.tflite_builder import Builder

pytest_plugins = ("tpulite_testing.command_line",)


def test_rows_that_are_no_steps_stay_apart():
    rows = [*(f"conv2d_{i}" for i in range(9)), "rnn/cell0", "softmax", "rnn/cell1", *["relu"] * 5]
    rows += [f"block/conv{i}" for i in range(5)]
    assert join_steps(rows, str, len) == [(row, [row]) for row in rows]
    rows = [name for i in range(5) for name in (f"a/gates{i}", "between")] + ["c/cell0", "c/cell1"]
    lines = [line for line, _ in join_steps(rows, str, lambda _: None)]
    assert lines == ["a/gates0–4", "between (5 times)", "c/cell0", "c/cell1"]


@pytest.mark.parametrize("numbers", [(0, 1, 4, 9), (1, 2, 3, 4), (0, 1, 2, 2, 3), (3, 2, 1, 0)])
def test_rows_that_are_not_all_steps_stay_apart(numbers):
    rows = [f"lstm/gates{number}" for number in numbers]
    assert [line for line, _ in join_steps(rows, str, len)] == rows


def test_an_lstm_has_a_line_for_all_of_its_steps(tpulite, tmp_path):
    b = Builder()
    x = b.input((1, 5, 12), 1 / 100, -5)
    path = tmp_path / "lstm.tflite"
    path.write_bytes(b.build(add_lstm(b, x, Lstm(6), np.random.default_rng(0))))
    code, out, _ = tpulite("inspect", path)
    (products,) = [line for line in out.splitlines() if "rent0–4" in line]
    assert code == 0 and products.split()[-1] == f"{5 * 6 * 24}" and out.count("gates0–4") == 3
    profile = profile_model(Model.load(path).compile())
    lines = {line.name: line for line in profile.lines}
    (name,) = [name for name in lines if name.endswith("recurrent0–4")]
    steps = [layer for layer in profile.layers if "recurrent" in layer.name]
    assert len(steps) == 5 and lines[name] in profile.slowest
    assert lines[name].cycles == sum(step.cycles for step in steps)
    assert lines[name].traffic.read_bytes == sum(step.traffic.read_bytes for step in steps)
    assert sum(line.cycles for line in profile.lines) == profile.cycles
    assert sum(line.macs for line in profile.lines) == profile.macs
