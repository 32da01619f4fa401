"""Batches: how many images go through the network together."""

from collections.abc import Callable

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.encode.repeat import repeat_program
from tpulite.compiler.geometry.extents import activation_rows
from tpulite.compiler.options import Options
from tpulite.golden.timing import program_cycles
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program

_MISSES = 2
"""So many larger parts in turn that make no image cheaper end the search."""

_ADDRESSED = 1 << 32
"""Bytes that addresses reach."""


def compile_batch(
    compile_images: Callable[[int], Program], options: Options
) -> tuple[Program, int]:
    """Return the program of a batch: the best one for a part of it, repeated; and that part.

    Images that go together share weights, until there are so many that less of them stays on chip:
    larger parts are tried until two of them in turn make no image cheaper.

    Parameters
    ----------
    compile_images : callable
        Returns the program for a number of images.

    Returns
    -------
    program : Program
        For all images of the batch.
    count : int
        How many of them go through the network together.

    Raises
    ------
    ValueError
        If the tensors or the commands of a batch are more than the machine can address.
    """
    best, least, misses = compile_images(1), None, 0
    _refuse(options.batch, "commands", len(best.commands) * COMMAND_BYTES)
    for count in range(2, options.batch + 1):
        if options.batch % count:
            continue
        least = least or _cost(best, options)
        try:
            program = compile_images(count)
        except ValueError:  # one image fits, so many do not
            break
        cost = _cost(program, options)
        misses = misses + 1 if cost >= least else 0
        if misses == _MISSES:
            break
        if not misses:
            best, least = program, cost
    times = options.batch // best.batch
    return repeat_program(best, times, prefetch=options.prefetch), best.batch


def check_sizes(layers: LayerGraph, config: Config, batch: int) -> None:
    """Refuse inputs and outputs of a batch that no window of DRAM can hold."""
    for what, names in (("inputs", layers.inputs), ("outputs", layers.outputs)):
        rows = sum(activation_rows(layers.activations[name], config) for name in names)
        _refuse(batch, what, rows * config.row_bytes)


def _refuse(batch: int, what: str, size: int) -> None:
    """Raise ValueError if ``batch`` times the bytes of something are more than addresses reach."""
    if batch * size >= _ADDRESSED:
        of = f"A batch of {batch} images" if batch > 1 else "The network"
        raise ValueError(
            f"{of} needs {batch * size} bytes of {what}, "
            f"but DRAM windows have less than {_ADDRESSED}"
        )


def _cost(program: Program, options: Options) -> float:
    """Return cycles, or bytes of DRAM traffic, of each image."""
    if options.optimize == "memory":
        moves = (c for c in program.commands if c.opcode in (Opcode.LOAD, Opcode.STORE))
        rows = sum(command["lines"] * command["rows"] for command in moves)
        return rows / program.batch
    return program_cycles(program) / program.batch
