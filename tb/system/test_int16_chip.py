"""Networks of LiteRT's int16x8 on the chip: tensors are the library's, cycles the model's."""

from pathlib import Path

import numpy as np
import pytest

from tpulite.frontend.files import load_graph
from tpulite.golden.timing import predict_cycles
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, compare_device, compare_model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import open_oracle
from tpulite_tb.machines import INT16
from tpulite_testing.graphs.int16_operators import OPERATORS
from tpulite_testing.graphs.wide import convolutions_of_int16, products_of_int16

CYCLES = 0.02
"""Of a program, relative; and as many cycles as its ends may take otherwise."""
FEW = 20


def _equals_the_library(path: Path, kernels: str, seed: int) -> None:
    """Compare tensors with the library's, and cycles with the model's."""
    graph = load_graph(path)
    model = Model.load(path, config=INT16, exact=kernels).compile()
    assert not model.plan.hosts
    inputs = [random_inputs(graph, 1, seed + i) for i in range(2)]
    how = Comparing(device="rtl")
    compared = compare_model(model, open_oracle(kernels, path, graph), inputs, how)
    assert compared.same and compared.elements, str(compared)
    layers = compare_device(model, inputs, how)
    assert layers.same and len(layers.tensors) == len(graph.nodes)
    cycles = Runner(model, "rtl").run(inputs[0]).cycles
    assert cycles is not None
    (counted,) = cycles
    (program,) = model.programs
    predicted = predict_cycles(program.commands, INT16)
    print(f"{predicted} cycles predicted, {counted} counted")
    assert abs(predicted - counted) <= max(CYCLES * counted, FEW), (predicted, counted)


@pytest.mark.parametrize("seed", range(6))
def test_every_tensor_is_that_of_the_library(tmp_path, seed: int):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 3, 4, 9, 20, 33], rng.integers(2, 5)).tolist()
    shape = (1, 2, int(rng.integers(1, 9))) if seed % 2 else (int(rng.integers(1, 20)),)
    path = tmp_path / "wide.tflite"
    path.write_bytes(products_of_int16(seed, shape, sizes))
    _equals_the_library(path, "litert-ref" if seed % 2 else "tflm", seed)


@pytest.mark.parametrize("seed", range(8))
def test_convolutions_are_those_of_the_library(tmp_path, seed: int):
    rng = np.random.default_rng(seed)
    channels = rng.choice([1, 3, 4, 9, 20], rng.integers(2, 4)).tolist()
    height, width = (int(extent) for extent in rng.integers(1, 14, 2))
    path = tmp_path / "wide.tflite"
    ends = "int16" if seed % 2 else "int8"
    data = convolutions_of_int16(seed, (height, width), channels, most=4, ends=ends)
    path.write_bytes(data)
    _equals_the_library(path, "litert-ref" if seed % 2 else "tflm", seed)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_those_of_the_library(tmp_path, name: str):
    path, kernels = tmp_path / "wide.tflite", "tflm" if "dense" in name else "litert-ref"
    path.write_bytes(OPERATORS[name](5))
    graph = load_graph(path)
    model = Model.load(path, config=INT16, exact=kernels).compile()
    assert not model.plan.hosts
    inputs = [random_inputs(graph, 1, 0)]
    how = Comparing(device="rtl")
    compared = compare_model(model, open_oracle(kernels, path, graph), inputs, how)
    assert compared.same and compared.elements, str(compared)
