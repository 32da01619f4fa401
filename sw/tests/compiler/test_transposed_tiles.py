"""Transposes, and products by transposed matrices, on machines with transposed weight tiles."""

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.rewrite.transposed_products import join_transposes
from tpulite.frontend.files import load_graph
from tpulite.golden.timing import predict_cycles
from tpulite.golden.validation import compare_layers, validate
from tpulite.graph.layers import MatMul, Transpose
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.sweep.cases import cases

PLAIN, ABLE = Config(transposed_tiles=False), Config()
SMALL = Config(array_size=4, transposed_tiles=True)

SHAPES = {
    "whole tiles": ("BATCH_MATMUL", "alone", "3x64x64x64 adjoint"),
    "a tile of few rows": ("BATCH_MATMUL", "alone", "12x7x32x7 adjoint"),
    "a last tile of few rows": ("BATCH_MATMUL", "alone", "4x50x16x50 adjoint"),
    "one row": ("BATCH_MATMUL", "alone", "6x1x48x256 adjoint"),
    "one long row": ("BATCH_MATMUL", "alone", "6x1x256x48 adjoint"),
    "three rows": ("BATCH_MATMUL", "alone", "1x3x64x300 adjoint"),
    "blocks with a rest": ("BATCH_MATMUL", "alone", "8x10x24x10 adjoint"),
    "squares": ("TRANSPOSE", "between", "16x16x64 order 1,3,2"),
    "squares and a rest": ("TRANSPOSE", "between", "28x28x24 order 1,3,2"),
    "no square": ("TRANSPOSE", "between", "7x9x10 order 1,3,2"),
}


def model_of(tmp_path, name, config):
    path = tmp_path / "network.tflite"
    path.write_bytes(cases()[SHAPES[name]].build())
    return path, Model.load(path, config=config).compile()


def transposed(model):
    return sum(
        command["transposed"]
        for program in model.programs
        for command in program.commands
        if command.opcode == Opcode.CONV
    )


@pytest.mark.parametrize("config", [ABLE, SMALL], ids=["16x16", "4x4"])
@pytest.mark.parametrize("name", SHAPES)
def test_results_are_those_of_litert(tmp_path, name, config):
    path, model = model_of(tmp_path, name, config)
    graph = load_graph(path)
    inputs = [random_inputs(graph, 1, seed) for seed in range(2)]
    compared = compare_model(model, open_oracle("litert-ref", path, graph), inputs, Comparing())
    assert compared.same and compared.elements, str(compared)
    assert transposed(model) > 0


@pytest.mark.parametrize("name", SHAPES)
def test_they_take_fewer_cycles(tmp_path, name):
    before, after = (model_of(tmp_path, name, config)[1] for config in (PLAIN, ABLE))
    cycles = [
        sum(predict_cycles(program.commands, model.config) for program in model.programs)
        for model in (before, after)
    ]
    assert transposed(before) == 0
    assert cycles[1] < cycles[0]


@pytest.mark.parametrize("name", ["a last tile of few rows", "squares and a rest"])
def test_programs_compute_their_layers(tmp_path, name):
    _, model = model_of(tmp_path, name, ABLE)
    for layers, program in zip(model.layers, model.programs, strict=True):
        assert validate(layers, program) == []


@pytest.mark.parametrize(
    ("name", "joined"),
    [
        ("whole tiles", True),
        ("one row", True),
        ("one long row", True),
        ("blocks with a rest", False),
    ],
)
def test_transposes_are_joined_where_channels_fill_blocks(tmp_path, name, joined):
    _, model = model_of(tmp_path, name, ABLE)
    (layers,) = model.layers
    after = join_transposes(layers, ABLE)
    assert compare_layers(layers, after) == []
    assert any(isinstance(layer, Transpose) for layer in after.layers) != joined
    assert any(isinstance(x, MatMul) and x.transposed for x in after.layers) == joined
    assert join_transposes(layers, PLAIN) is layers


def test_a_product_whose_adjoint_takes_more_cycles_keeps_its_transpose(tmp_path):
    _, model = model_of(tmp_path, "three rows", ABLE)
    (layers,) = model.layers
    after = join_transposes(layers, ABLE)
    assert compare_layers(layers, after) == []
    assert [type(layer) for layer in after.layers][:2] == [MatMul, Transpose]
