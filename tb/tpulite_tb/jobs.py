"""Checks by seed on the Verilated chip, for ``tpulite regress``."""

from collections import Counter
from functools import partial
from pathlib import Path

from tpulite_tb.every_cycle import interrupted
from tpulite_tb.flips import Fate, flip
from tpulite_tb.machines import DEFAULT
from tpulite_tb.random_check import CONFIGS, check, memory_options
from tpulite_tb.random_program import RandomProgram
from tpulite_tb.resets import cut_off
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import Compilation, random_compilation
from tpulite_testing.jobs.graphs import smallest_case
from tpulite_testing.jobs.plain import run_plain_network
from tpulite_verilated.rtl_device import RtlDevice

__all__ = [
    "MACHINES",
    "bit_flip",
    "cut_off_run",
    "interrupted_default",
    "interrupted_small",
    "onnx_on_chip",
    "random_graph_on_chip",
    "random_programs",
    "smallest_graph_on_chip",
    "tflite_on_chip",
]

MACHINES = {
    "4x4": (CONFIGS["4x4"], 300),
    "8x8": (CONFIGS["8x8"], 2_000),
    "16x16": (CONFIGS["16x16"], 12_000),
}
"""Machines of networks, and elements of the largest activations that are drawn for them."""

_DRAM_BYTES = 1 << 24
_STALLS = (0.0, 0.0, 0.3)


def random_programs(seed: int) -> dict[str, int]:
    """Run a random program on each machine: chip and golden machine leave the same DRAM."""
    counts: Counter[str] = Counter()
    for name, config in CONFIGS.items():
        program = RandomProgram(seed, config)
        device = RtlDevice(config, seed=seed, **memory_options(program))
        try:
            check(program, device, device.set_errors)
        except Exception as error:
            error.add_note(f"on {name}")
            raise
        counts.update(programs=1, faults=program.fault is not None, cycles=device.cycles)
    return dict(counts)


def random_graph_on_chip(seed: int) -> dict[str, int]:
    """Compile a graph of layers for one of the machines in turn, and run it on the chip."""
    return _on_chip(seed, _graph(seed))


def smallest_graph_on_chip(seed: int, folder: Path) -> Path:
    """Write the fewest layers that still fail in the same way, as text."""
    return smallest_case(_graph(seed), partial(_on_chip, seed), folder / f"chip-graphs-{seed}.txt")


def _graph(seed: int) -> Compilation:
    config, largest = list(MACHINES.values())[seed % len(MACHINES)]
    return random_compilation(Seeded(seed), most=8, largest=largest, config=config)


def _on_chip(seed: int, case: Compilation) -> dict[str, int]:
    program = case.compile_if_it_fits()
    if program is None:
        return {"too large": 1}
    stall = _STALLS[seed // len(MACHINES) % len(_STALLS)]
    device = RtlDevice(
        case.config, dram_bytes=_DRAM_BYTES, stall=stall, jitter=int(50 * stall), seed=seed
    )
    case.run(program, device, seed)
    return {"graphs": 1, "layers": len(case.graph.layers), "cycles": device.cycles}


def tflite_on_chip(seed: int) -> dict[str, int]:
    """Run a plain TFLite network on the chip that users get who ask for nothing."""
    return run_plain_network(seed, "tflite", DEFAULT, "rtl")


def onnx_on_chip(seed: int) -> dict[str, int]:
    """Run a plain ONNX network on that chip."""
    return run_plain_network(seed, "onnx", DEFAULT, "rtl")


def bit_flip(seed: int) -> dict[str, int]:
    """Flip a bit of the chip in a run, and count what came of it, by component.

    The run must end by itself, and the chip must work again after it.
    """
    done = flip(seed)
    assert done.fate != Fate.HUNG, done
    also = {"strayed": done.strayed, "lasting": done.lasting}
    return {f"{name} of {done.component}": 1 for name in (done.fate, *filter(also.get, also))}


def cut_off_run(seed: int) -> dict[str, int]:
    """Cut a run off at any cycle, by reset or STOP; the next one must be right."""
    done = cut_off(seed)
    return {done.how: 1, "after the end": done.finished}


def interrupted_small(seed: int) -> dict[str, int]:
    """Interrupt a short program on a 4x4 machine: seeds are the cycles of a dozen programs."""
    return interrupted("4x4", seed)


def interrupted_default(seed: int) -> dict[str, int]:
    """Interrupt a short program on a 16x16 machine, likewise."""
    return interrupted("16x16", seed)
