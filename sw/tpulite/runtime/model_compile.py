"""Compiling a network that the machine runs in several parts."""

from collections.abc import Callable, Sequence
from functools import partial

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers, compile_pair
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
                f"Weights stay on chip only if one part of the network is the machine's, "
                f"not {len(parts)}"
            )
        return compile_pair(parts[0], config, options, progress=progress)
    programs = []
    for index, layers in enumerate(parts):
        name = f"part {index + 1} of {len(parts)}: " if len(parts) > 1 else ""
        make = partial(
            compile_layers,
            layers,
            config,
            options,
            progress=progress and partial(_tell, progress, name),
            dump=dump and partial(dump, index),
        )
        if cache is None:
            programs.append(make())
        else:
            programs.append(cache.get(layers, config, options, make, fresh=dump is not None))
    return tuple(programs)


def _tell(progress: Progress, name: str, step: str) -> None:
    progress(name + step)
