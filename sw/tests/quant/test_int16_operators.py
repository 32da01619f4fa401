"""Operators and blocks of LiteRT's int16x8 on the golden machine: the library's bits."""

import pytest

from tpulite.arch.config import Config
from tpulite.frontend.files import load_graph
from tpulite.golden.check import check
from tpulite.golden.validation import validate
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.graphs.int16_blocks import BLOCKS
from tpulite_testing.graphs.int16_operators import OPERATORS

KERNELS = ("litert-ref", "litert-opt", "litert-xnnpack", "tflm")
CONFIGS = (
    Config(int16=True),
    Config(array_size=4, ub_rows=1024, acc_rows=64, int16=True),
    Config(array_size=4, ub_rows=256, acc_rows=32, ub_banks=4, int16=True),
)


def _compiled(tmp_path, data: bytes, config: Config, kernels: str, seed: int) -> Model:
    """Compile a network, check and prove its programs, and compare it with the library."""
    path = tmp_path / "wide.tflite"
    path.write_bytes(data)
    graph = load_graph(path)
    model = Model.load(path, config=config, exact=kernels).compile()
    for program, layers in zip(model.programs, model.layers, strict=True):
        assert not check(program)
        assert not validate(layers, program)
    inputs = [random_inputs(graph, 1, seed + i) for i in range(2)]
    compared = compare_model(model, open_oracle(kernels, path, graph), inputs)
    assert compared.same and compared.elements, str(compared)
    return model


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("seed", range(4))
def test_operators_are_those_of_the_library(tmp_path, name: str, seed: int):
    kernels = KERNELS[seed]
    if (name, kernels) == ("relu6", "tflm"):
        pytest.skip("TensorFlow Lite Micro leaves the result as it was")
    config = CONFIGS[seed % len(CONFIGS)]
    model = _compiled(tmp_path, OPERATORS[name](seed), config, kernels, seed)
    doubles = name == "dense behind a reshape" and kernels != "tflm"
    assert doubles or not model.plan.hosts


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("seed", range(2))
def test_blocks_are_those_of_the_library(tmp_path, name: str, seed: int):
    model = _compiled(tmp_path, BLOCKS[name](seed), CONFIGS[0], KERNELS[3 * seed], seed)
    left = {each.operator for each in model.summary() if each.where == "host"}
    assert left <= {"ADD", "MEAN", "SLICE"}  # of int16 the machine has no ADD
    assert bool(left) == (name in ("mobilenet", "residual", "tcn"))
