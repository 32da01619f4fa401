"""Transposed weight tiles on the chip: data are the golden machine's, cycles the model's."""

import pytest

from tpulite.arch.isa import Opcode
from tpulite.frontend.files import load_graph
from tpulite.golden.timing import predict_cycles
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, compare_model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import open_oracle
from tpulite_tb.machines import FEW_ROWS, TRANSPOSING
from tpulite_tb.products import OF_ONE, compare_products
from tpulite_testing.regress import thinned
from tpulite_testing.sweep.case import Net, alone
from tpulite_testing.sweep.cases import cases

MACHINES = {"4x4": TRANSPOSING, "16x16": FEW_ROWS}


@pytest.mark.parametrize(
    "name", thinned(MACHINES, "4x4", reason="its simulator takes minutes to build")
)
def test_products_by_transposed_tiles(name: str) -> None:
    compare_products(MACHINES[name], programs=40)


def _product(net: Net, x: int) -> int:
    """Multiply 5 x 8 by the transpose of 6 x 8: the last tile of columns is not full."""
    other, result = net.image((1, 2, 6, 8)), net.tensor((1, 2, 5, 6), 0.3, 3)
    options = {"options_type": "BatchMatMulOptions", "adjX": False, "adjY": True}
    return net.operator("BATCH_MATMUL", [x, other], [result], **options)


CASES = {
    "product": alone("BATCH_MATMUL", (1, 2, 5, 8), _product),
    "transpose": cases()["TRANSPOSE", "between", "7x9x10 order 1,3,2"],
}


@pytest.mark.parametrize("name", CASES)
def test_layers_are_those_of_litert(tmp_path, name: str) -> None:
    path = tmp_path / "network.tflite"
    path.write_bytes(CASES[name].build())
    graph = load_graph(path)
    model = Model.load(path, config=TRANSPOSING).compile()
    used = [x for program in model.programs for x in program.commands if x.opcode == Opcode.CONV]
    assert any(command["transposed"] for command in used)
    inputs = [random_inputs(graph, 1, seed) for seed in range(2)]
    how = Comparing(device="rtl")
    compared = compare_model(model, open_oracle("litert-ref", path, graph), inputs, how)
    assert compared.same and compared.elements, str(compared)
    counted = Runner(model, "rtl").run(inputs[0]).cycles
    assert counted is not None
    predicted = sum(predict_cycles(program.commands, TRANSPOSING) for program in model.programs)
    print(f"{predicted} cycles predicted, {sum(counted)} counted")
    assert abs(predicted / sum(counted) - 1) <= OF_ONE
