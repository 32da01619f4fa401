"""SVDF and LSTM of integers: every frame is the library's, states included."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.configs import named_config
from tpulite.frontend.tflite.file import load_tflite
from tpulite.golden.timing import program_cycles
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.files.recurrent import Lstm, add_lstm, add_svdf
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.oracles.model_tensors import equals_library

LITERT = ("litert-ref", "litert-opt", "litert-xnnpack")
WIDE = named_config("16x16,int16=1")
FRAMES = 4

LSTMS = {
    "plain": Lstm(20),
    "coupled": Lstm(7, coupled=True),
    "peephole": Lstm(9, peephole=True),
    "coupled_peephole": Lstm(9, coupled=True, peephole=True, time_major=True),
    "time_major": Lstm(16, time_major=True, power=-9),
    "clipped": Lstm(16, clip=0.5, power=-15),
}


def lstm_file(form: Lstm, shape=(1, 5, 12), seed: int = 7) -> bytes:
    b = Builder()
    return b.build(add_lstm(b, b.input(shape, 1 / 100, -5), form, np.random.default_rng(seed)))


def svdf_file(units: int, rank: int, steps: int, shape=(1, 20), **fields) -> bytes:
    b, rng = Builder(), np.random.default_rng(units + steps)
    return b.build(add_svdf(b, b.input(shape, 1 / 100, -5), units, rank, steps, rng, **fields))


@pytest.mark.parametrize("exact", LITERT)
@pytest.mark.parametrize("name", LSTMS)
def test_an_lstm_multiplies_on_the_machine_alone(tmp_path, name, exact):
    model = equals_library(tmp_path, lstm_file(LSTMS[name]), exact, FRAMES)
    assert model.host_macs == 0


def test_lstms_of_several_sequences(tmp_path):
    for shape, major in (((3, 4, 12), False), ((4, 3, 12), True)):
        model = equals_library(tmp_path, lstm_file(Lstm(10, time_major=major), shape), count=FRAMES)
        assert model.host_macs == 0


@pytest.mark.parametrize("exact", LITERT)
def test_sums_of_an_lstm_wrap_as_the_librarys(tmp_path, exact):
    largest = 1 << 31
    for bias in ((largest - 20_000, largest), (-largest, 20_000 - largest)):
        model = equals_library(tmp_path, lstm_file(Lstm(20, bias=bias)), exact, FRAMES)
        assert model.host_macs == 0


@pytest.mark.parametrize("form", [Lstm(12, projection=True), Lstm(12, norm=True)])
def test_other_lstms_are_the_librarys_and_keep_their_states(tmp_path, form):
    model = equals_library(tmp_path, lstm_file(form), count=FRAMES)
    assert model.host_macs and len(model.graph.states) == 2


@pytest.mark.parametrize("exact", LITERT)
@pytest.mark.parametrize(
    ("units", "rank", "steps", "most"),
    [(8, 1, 4, 127), (16, 2, 10, 127), (12, 3, 1, 127), (20, 1, 8, 3000), (7, 2, 5, 32767)],
)
def test_an_svdf_is_the_machines_that_has_int16(tmp_path, units, rank, steps, most, exact):
    data = svdf_file(units, rank, steps, most=most, bias=rank < 3)
    model = equals_library(tmp_path, data, exact, FRAMES, WIDE)
    assert model.host_macs == 0 and not model.plan.hosts
    other = equals_library(tmp_path, data, exact, FRAMES)
    assert other.host_macs and other.graph.states


def test_sums_of_an_svdf_wrap_as_the_librarys(tmp_path):
    b = Builder()
    x = b.input((1, 20), 1 / 100, -5)
    y = add_svdf(b, x, 7, 2, 5, np.random.default_rng(3), most=32767, loud=2.5)
    model = equals_library(tmp_path, b.build(y), count=30, config=WIDE)
    ((name, kept),) = model.state.items()
    assert model.host_macs == 0 and kept.shape == (5, 14)
    time = next(
        t.data for t in model.graph.tensors.values() if t.dtype == "int16" and t.data is not None
    )
    sums = (kept * time.T.astype(np.int64)).reshape(5, 7, 2).sum(axis=(0, 2))
    assert (np.abs(sums) >= 1 << 31).any(), name


def test_states_go_on_until_they_are_reset():
    model = Model.load(load_tflite(lstm_file(Lstm(20)), "lstm"))
    (x,) = random_inputs(model.graph, 3, 2024).values()
    first = model.run(x).output
    assert (model.run(x).output != first).any()
    model.reset()
    assert (model.run(x).output == first).all()
    apart = model.run(x, reset=True).output
    assert (apart[0] == first[0]).all() and (apart[1] != first[1]).any()


def test_an_lstm_begins_with_an_output_of_zero():
    model = Model.load(load_tflite(lstm_file(Lstm(20)), "lstm"))
    output, cell = (model.graph.tensors[state.input] for state in model.graph.states)
    assert output.quantization is not None
    assert (model.state[output.name] == output.quantization.zero_point[0]).all()
    assert not model.state[cell.name].any()


@pytest.mark.parametrize(("config", "most"), [("16x16", 9_000), ("16x16,int4=1", 5_000)])
def test_a_step_takes_little_longer_than_its_weights_take_to_enter(config, most):
    cells = 128
    data = lstm_file(Lstm(cells, most=7 if "int4" in config else 127), (1, 1, cells))
    model = Model.load(load_tflite(data, "lstm"), config=named_config(config)).compile()
    weights = 2 * 4 * cells**2
    rows = weights // (32 if "int4" in config else 16)  # of the array, one in a cycle
    assert rows < sum(program_cycles(program) for program in model.programs) < most


def test_an_lstm_between_other_layers(tmp_path):
    b, rng = Builder(), np.random.default_rng(5)
    x = b.input((1, 6, 12), 0.02, 3)
    for form in (Lstm(16), Lstm(9, coupled=True)):
        x = add_lstm(b, x, form, rng)
    weight = rng.integers(-127, 128, (10, 54)).astype(np.int8)
    y = b.dense(
        b.reshape(x, (1, 54)), weight, [7] * 10, weight_scale=0.01, scale=0.05, zero_point=-3
    )
    model = equals_library(tmp_path, b.build(b.unary("TANH", y, 1 / 128)), count=FRAMES)
    assert model.host_macs == 0 and len(model.state) == 4


def test_every_step_has_what_its_passes_made():
    seen = set()
    model = Model.load(load_tflite(lstm_file(Lstm(20)), "lstm"))
    model.compile(dump=lambda part, name, value: seen.add((part, name)))
    assert {part for part, name in seen if name == "schedule"} == {*range(len(model.layers))}


def broken(clip: float = 0.0, **shapes: list[int]) -> bytes:
    """Return a file with an LSTM whose states have other shapes."""
    b = Builder()
    y = add_lstm(b, b.input((1, 5, 12), 1 / 100, -5), Lstm(6, clip=clip), np.random.default_rng(1))
    states = [each for each in b.tensors if each.isVariable]
    for name, each in zip(("state", "cell"), states, strict=True):
        each.shape = shapes.get(name, each.shape)
    return b.build(y)


@pytest.mark.parametrize(
    "fields",
    [{"cell": [2, 6]}, {"cell": []}, {"state": [1, 5]}, {"clip": float("nan")}, {"clip": -1.0}],
)
def test_what_is_no_lstm_of_litert_is_the_librarys(fields):
    nodes = load_tflite(broken(**fields), "lstm").nodes
    assert "integer_lstm" not in {node.op for node in nodes}
    assert "integer_lstm" in {node.op for node in load_tflite(broken(), "lstm").nodes}
