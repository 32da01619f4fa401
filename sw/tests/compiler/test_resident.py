import re
from dataclasses import replace

import pytest

from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler import compile_pair
from tpulite.runtime.golden_device import GoldenDevice
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation

NO_ROOM = re.compile(r"to stay, the unified buffer has|does not fit the unified buffer")


@pytest.mark.parametrize("seed", range(12))
def test_any_network_runs_on_constants_that_an_earlier_run_has_left(seed):
    case = random_compilation(Seeded(777 + seed), most=6)
    case = replace(case, options=replace(case.options, effort=1000))
    try:
        cold, warm = compile_pair(case.graph, case.config, case.options)
    except ValueError as error:
        assert NO_ROOM.search(str(error))
        return
    device = GoldenDevice(case.config)
    for number, program in enumerate((cold, warm, warm, cold, warm)):
        case.run(program, device, seed=number)
    ((start, stop),) = warm.resident
    for command in warm.commands:
        if command.opcode == Opcode.LOAD:
            assert command["row"] not in range(start, stop)
            assert command["window"] != Window.CONSTANTS or case.graph.constants
