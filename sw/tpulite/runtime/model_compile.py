"""Compiling a network that the machine runs in several parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tpulite.arch.config import Config
from tpulite.compiler.options import LEAST_EFFORT, Options
from tpulite.compiler.pipeline import compile_layers, compile_pair
from tpulite.compiler.stages import idle_cycles
from tpulite.compiler.state import Known
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program
from tpulite.runtime.compile_cache import ProgramCache

__all__ = ["Dump", "Progress", "compile_parts"]

Progress = Callable[[str], None]
"""Called with a line of text at every step."""

Dump = Callable[[int, str, object], None]
"""Called with the index of a part, the name of a stage and its result."""


def compile_parts(
    parts: Sequence[LayerGraph],
    config: Config,
    options: Options,
    *,
    cache: ProgramCache | None = None,
    progress: Progress | None = None,
    dump: Dump | None = None,
) -> tuple[Program, ...]:
    """Compile parts of a network, one after the other; or the only one twice if constants stay.

    Several parts share the effort of one network. They are compiled without a search first, and
    each gets what its layers and the cycles that it could still lose are of all: where the busiest
    engine hardly waits, no search helps.

    Parameters
    ----------
    parts : sequence of LayerGraph
        The parts.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.
    cache : ProgramCache, optional
        Where programs may be, and are kept.
    progress : callable, optional
        Called at every step.
    dump : callable, optional
        Called after every stage; nothing is then taken from the cache.

    Raises
    ------
    ValueError
        If a layer does not suit the machine or the options, or constants are to stay and there is
        more than one part, or no room.
    """
    if options.resident:
        if len(parts) != 1:
            raise ValueError(
                f"resident weights need a network with one part on the machine, not {len(parts)}"
            )
        return compile_pair(parts[0], config, options, progress=progress)
    known = [Known(config) for _ in parts]

    def compile_part(index: int, effort: int, dump: Dump | None) -> Program:
        layers, chosen = parts[index], replace(options, effort=effort)
        name = f"part {index + 1} of {len(parts)}: " if len(parts) > 1 else ""
        make = partial(
            compile_layers,
            layers,
            config,
            chosen,
            progress=progress and partial(_tell, progress, name),
            dump=dump and partial(dump, index),
            known=known[index],
        )
        if cache is None:
            return make()
        return cache.get(layers, config, chosen, make, fresh=dump is not None)

    efforts: Sequence[int] = [options.effort] * len(parts)
    if len(parts) > 1 and options.effort:
        quick = [compile_part(index, 0, None) for index in range(len(parts))]
        efforts = _efforts(parts, quick, options.effort)
        if dump is None:
            return tuple(
                compile_part(index, effort, None) if effort else quick[index]
                for index, effort in enumerate(efforts)
            )
    return tuple(compile_part(index, effort, dump) for index, effort in enumerate(efforts))


def _efforts(
    parts: Sequence[LayerGraph], programs: Sequence[Program], effort: int
) -> Sequence[int]:
    """Return the share of each part in the effort; none where it would find nothing."""
    idle = [idle_cycles(x.commands, x.config, x.memory) for x in programs]
    layers = [len(part.layers) for part in parts]
    whole = sum(idle) * sum(layers) or 1
    shares = [effort * x * n // whole for x, n in zip(idle, layers, strict=True)]
    return [share if share >= LEAST_EFFORT else 0 for share in shares]


def _tell(progress: Progress, name: str, step: str) -> None:
    progress(name + step)
