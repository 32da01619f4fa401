"""Random products on the Verilated chip, beside the golden machine and the cycle model."""

import random

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Drain, Engine, Opcode, dense
from tpulite.arch.memory import WindowBinding
from tpulite.golden.machine import Machine
from tpulite.golden.machine.dram import Dram
from tpulite.golden.timing import predict_cycles
from tpulite.runtime.device import Job
from tpulite_verilated.rtl_device import RtlDevice

__all__ = ["OF_ONE", "compare_products"]

CYCLES = 0.002
"""Of all programs, relative."""
OF_ONE = 0.02
"""Of a program of a few hundred cycles: rows of several engines meet in the buffer."""
DRAM = 1 << 18


def compare_products(config: Config, programs: int) -> None:
    """Run random products on a chip and compare all of DRAM, and cycles with the model's."""
    device = RtlDevice(config, dram_bytes=DRAM)
    windows = tuple(
        WindowBinding(base=i << 16, size=1 << 16, read=True, write=True) for i in range(4)
    )
    counted, predicted = 0, 0
    for seed in range(programs):
        rng = random.Random(seed)
        commands = _draw(rng, config)
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


def _draw(rng: random.Random, config: Config) -> list[Command]:
    """Return products of the rows of a loaded buffer, by transposed tiles, int4 and others."""
    size, half = config.array_size, config.ub_rows // 2
    commands = [Command.make(Opcode.LOAD, lines=1, rows=half, signal=1 << Engine.MXU)]
    places = []
    for _ in range(rng.randint(4, 12)):
        first = len(commands) == 1
        m = rng.choice([1, 3, size, size + 1, 2 * size])
        tiles = rng.randint(1, 8 if config.int4 else 3)
        drain = rng.choice([Drain.KEEP, Drain.RAW, Drain.KEEP])
        adds = bool(drain == Drain.RAW and places and rng.random() < 0.5)
        m = places[-1] if adds else m
        transposed = rng.random() < (0.3 if config.int4 else 0.7)
        int4 = config.int4 and not transposed and rng.random() < 0.7
        fields = {
            "transposed": transposed,
            "int4": int4,
            "act_row": rng.randrange(half - m * tiles),
            "weight_row": rng.randrange(half - size * tiles),
            "weight_zero_point": 0 if int4 else rng.choice([0, -128, 127, 5]),
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
