"""Transposed weight tiles on the chip: data are the golden machine's, cycles the model's."""

import random

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Drain, Engine, Opcode, dense
from tpulite.arch.memory import WindowBinding
from tpulite.frontend.files import load_graph
from tpulite.golden.machine import Machine
from tpulite.golden.machine.dram import Dram
from tpulite.golden.timing import predict_cycles
from tpulite.runtime.device import Job
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, compare_model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import open_oracle
from tpulite_tb.machines import FEW_ROWS, TRANSPOSING
from tpulite_testing.regress import thinned
from tpulite_testing.sweep.case import Net, alone
from tpulite_testing.sweep.cases import cases
from tpulite_verilated.rtl_device import RtlDevice

MACHINES = {"4x4": TRANSPOSING, "16x16": FEW_ROWS}
CYCLES = 0.002
"""Of all programs, relative."""
OF_ONE = 0.02
"""Of a program of a few hundred cycles: rows of several engines meet in the buffer."""
DRAM = 1 << 18


def _program(rng: random.Random, config: Config) -> list[Command]:
    """Return products of the rows of a loaded buffer, most of them by transposed tiles."""
    size, half = config.array_size, config.ub_rows // 2
    commands = [Command.make(Opcode.LOAD, lines=1, rows=half, signal=1 << Engine.MXU)]
    places = []
    for _ in range(rng.randint(4, 12)):
        first = len(commands) == 1
        m, tiles = rng.choice([1, 3, size, size + 1, 2 * size]), rng.randint(1, 3)
        drain = rng.choice([Drain.KEEP, Drain.RAW, Drain.KEEP])
        adds = bool(drain == Drain.RAW and places and rng.random() < 0.5)
        m = places[-1] if adds else m
        fields = {
            "transposed": int(rng.random() < 0.7),
            "act_row": rng.randrange(half - m * tiles),
            "weight_row": rng.randrange(half - size * tiles),
            "weight_zero_point": rng.choice([0, -128, 127, 5]),
            "out_row": half,
            "prefetch": not first,
            "wait": (1 << Engine.LOAD) * first,
            "accumulate": adds,
        }
        places = [m] if drain == Drain.KEEP else []
        if 4 * m > half:
            continue
        products = dense(m=m, k_tiles=tiles, act_pitch=m, drain=drain, **fields)
        commands.append(Command.make(Opcode.CONV, **products))
    last = Command.make(
        Opcode.CONV,
        **dense(m=size, k_tiles=1, drain=Drain.RAW, transposed=1, out_row=half),
        wait=(1 << Engine.LOAD) * (len(commands) == 1),
        signal=1 << Engine.STORE,
    )
    store = Command.make(
        Opcode.STORE, window=1, lines=1, rows=4 * size, row=half, wait=1 << Engine.MXU
    )
    return [*commands, last, store, Command.make(Opcode.END)]


@pytest.mark.parametrize(
    "name", thinned(MACHINES, "4x4", reason="its simulator takes minutes to build")
)
def test_products_by_transposed_tiles(name: str) -> None:
    config = MACHINES[name]
    device = RtlDevice(config, dram_bytes=DRAM)
    windows = tuple(
        WindowBinding(base=i << 16, size=1 << 16, read=True, write=True) for i in range(4)
    )
    counted, predicted = 0, 0
    for seed in range(40):
        rng = random.Random(seed)
        commands = _program(rng, config)
        image = np.random.default_rng(seed).integers(0, 256, DRAM).astype(np.uint8)
        code = b"".join(command.encode() for command in commands)
        dram = Dram(DRAM)
        for memory in (dram, device):
            memory.write(0, image)
            memory.write(2 << 16, np.frombuffer(code, np.uint8))
        done = Machine(config).run(commands, windows, dram, program_address=2 << 16)
        assert done.fault is None
        result = device.run(Job(2 << 16, len(commands), windows))
        assert result.fault is None
        assert (device.read(0, DRAM) == dram.data).all(), seed
        cycles = predict_cycles(commands, config)
        assert abs(cycles / result.counters["cycles"] - 1) <= OF_ONE, seed
        counted, predicted = counted + result.counters["cycles"], predicted + cycles
    print(f"{predicted} cycles predicted, {counted} counted")
    assert abs(predicted / counted - 1) <= CYCLES


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
