"""Recurrent networks on the chip: every frame is the library's, states included."""

import numpy as np
import pytest

from tpulite.frontend.files import load_graph
from tpulite.golden.timing import predict_cycles
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, compare_model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import open_oracle
from tpulite_tb.machines import INT16
from tpulite_testing.files.recurrent import Lstm, add_lstm, add_svdf
from tpulite_testing.files.tflite_builder import Builder

FRAMES = 3
CYCLES = 0.02
"""Of a run, relative; and as many cycles of each program as its ends may take otherwise."""
FEW = 20


def lstm(b: Builder, x: int, rng: np.random.Generator) -> int:
    return add_lstm(b, b.reshape(x, (1, 3, 4)), Lstm(6), rng)


def svdf(b: Builder, x: int, rng: np.random.Generator) -> int:
    y = add_svdf(b, x, 6, 2, 4, rng)
    return add_svdf(b, y, 5, 1, 3, rng, most=20000)


@pytest.mark.parametrize("add", [lstm, svdf])
def test_frames_are_those_of_the_library(tmp_path, add):
    b, path = Builder(), tmp_path / "net.tflite"
    path.write_bytes(b.build(add(b, b.input((1, 12), 1 / 100, -5), np.random.default_rng(3))))
    graph = load_graph(path)
    model = Model.load(path, config=INT16).compile()
    assert model.host_macs == 0
    inputs = [random_inputs(graph, 1, seed) for seed in range(FRAMES)]
    compared = compare_model(
        model, open_oracle("litert-ref", path, graph), inputs, Comparing(device="rtl")
    )
    names = {state.output for state in graph.states}
    assert compared.same and names <= {tensor.name for tensor in compared.tensors}, str(compared)
    cycles = Runner(model, "rtl").run(inputs[0]).cycles
    assert cycles is not None
    (counted,) = cycles
    predicted = sum(predict_cycles(program.commands, INT16) for program in model.programs)
    print(f"{predicted} cycles predicted, {counted} counted")
    assert abs(predicted - counted) <= max(CYCLES * counted, FEW * len(model.programs))
