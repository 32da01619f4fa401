"""Weight tiles of int4 on the chip: data are the golden machine's, cycles the model's."""

from dataclasses import replace
from pathlib import Path

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.frontend.files import load_graph
from tpulite.golden.timing import predict_cycles
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, compare_model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import open_oracle
from tpulite_tb.machines import FEW_ROWS, INT4
from tpulite_tb.products import compare_products
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.drawn.narrow import narrowed
from tpulite_testing.graphs.wide import products_of_int16
from tpulite_testing.regress import thinned
from tpulite_verilated.rtl_device import RtlDevice

MACHINES = {"4x4": INT4, "16x16": replace(FEW_ROWS, int4=True)}
COMPILED = Config(array_size=8, ub_rows=1024, acc_rows=64, int4=True, int16=True)
"""The smallest array whose layers the compiler packs; activations may be int16."""


@pytest.mark.parametrize(
    "name", thinned(MACHINES, "4x4", reason="its simulator takes minutes to build")
)
def test_products_by_tiles_of_int4(name: str) -> None:
    compare_products(MACHINES[name], programs=80)


def test_networks_with_weights_of_4_bits() -> None:
    device, found = RtlDevice(COMPILED), 0
    for seed in range(16):
        case = replace(narrowed(random_compilation(Seeded(seed)).quick(), seed), config=COMPILED)
        program = case.compile_if_it_fits()
        if program is not None and any(
            each["int4"] for each in program.commands if each.opcode == Opcode.CONV
        ):
            case.run(program, device, seed)
            found += 1
    assert found >= 6


@pytest.mark.parametrize(("width", "channels"), [(1, (70, 33, 20)), (5, (33, 9, 70)), (8, (9, 70))])
def test_int16_activations_times_weights_of_4_bits(tmp_path: Path, width: int, channels) -> None:
    path = tmp_path / "narrow.tflite"
    path.write_bytes(products_of_int16(width, (1, 2, width), channels, largest=7))
    graph = load_graph(path)
    model = Model.load(path, config=COMPILED, exact="litert-ref").compile()
    (program,) = model.programs
    assert not model.plan.hosts
    both = [x for x in program.commands if x.opcode == Opcode.CONV and x["int4"] and x["int16"]]
    assert both
    inputs = [random_inputs(graph, 1, seed) for seed in range(2)]
    oracle = open_oracle("litert-ref", path, graph)
    compared = compare_model(model, oracle, inputs, Comparing(device="rtl"))
    assert compared.same and compared.elements, str(compared)
    cycles = Runner(model, "rtl").run(inputs[0]).cycles
    assert cycles is not None
    (counted,) = cycles
    assert abs(predict_cycles(program.commands, COMPILED) - counted) <= max(0.02 * counted, 20)
