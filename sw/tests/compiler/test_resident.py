import re
from dataclasses import replace

from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler import compile_pair
from tpulite.runtime.golden_device import GoldenDevice
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation

SEEDS = 12
NO_ROOM = re.compile(r"to stay, the unified buffer has|does not fit the unified buffer")


def test_any_network_runs_on_constants_that_an_earlier_run_has_left():
    ran = sum(runs_on_constants_left(seed) for seed in range(777, 777 + SEEDS))
    assert ran >= SEEDS // 2


def runs_on_constants_left(seed) -> bool:
    """Run a drawn network; return False if it is refused because its constants need the room."""
    case = random_compilation(Seeded(seed), most=6)
    case = replace(case, options=replace(case.options, effort=1000))
    try:
        cold, warm = compile_pair(case.graph, case.config, case.options)
    except ValueError as error:
        assert NO_ROOM.search(str(error))
        return False
    device = GoldenDevice(case.config)
    for number, program in enumerate((cold, warm, warm, cold, warm)):
        case.run(program, device, seed=number)
    ((start, stop),) = warm.resident
    for command in warm.commands:
        if command.opcode == Opcode.LOAD:
            assert command["row"] not in range(start, stop)
            assert command["window"] != Window.CONSTANTS or case.graph.constants
    return True
