"""Compiling a network that the machine runs in several parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tpulite.arch.config import Config
from tpulite.compiler.options import LEAST_EFFORT, Options
from tpulite.compiler.pipeline import compile_layers, compile_pair
from tpulite.compiler.stages import idle_cycles
from tpulite.compiler.state import Known
from tpulite.golden.timing import measured_once
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program
from tpulite.runtime.compile_cache import ProgramCache, digest_of

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

    Parts that differ in names alone are compiled once. Several parts share the effort of one
    network. They are compiled without a search first, and each gets what its layers and the cycles
    that it could still lose are of all: where the busiest engine hardly waits, no search helps.

    Parameters
    ----------
    cache : ProgramCache, optional
        Where programs may be, and are kept.
    progress : callable, optional
        Called at every step.
    dump : callable, optional
        Called after every stage of each part; nothing is then taken from the cache.

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
    alike = len(parts) > 1 and dump is None
    like = _equal_parts(parts) if alike else range(len(parts))
    if any(first != index for index, first in enumerate(like)):
        alone = sorted(set(like))
        made = compile_parts(
            [parts[index] for index in alone],
            config,
            options,
            cache=cache,
            progress=progress,
        )
        each = dict(zip(alone, made, strict=True))
        return tuple(
            _renamed(each[first], parts[first], parts[index]) for index, first in enumerate(like)
        )
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


def _equal_parts(parts: Sequence[LayerGraph]) -> Sequence[int]:
    """Return for each part the first one that differs from it in names alone."""
    first: dict[str, int] = {}
    return [first.setdefault(_without_names(part), index) for index, part in enumerate(parts)]


def _without_names(part: LayerGraph) -> str:
    """Return a digest of a part in which tensors and layers have numbers for names."""
    names = dict(zip(part.activations, map(str, range(len(part.activations))), strict=True))
    layers = tuple(
        replace(
            layer,
            name=str(number),
            inputs=tuple(names[name] for name in layer.inputs),
            output=names[layer.output],
        )
        for number, layer in enumerate(part.layers)
    )
    return digest_of(
        LayerGraph(
            "",
            layers,
            {names[name]: value for name, value in part.activations.items()},
            tuple(names[name] for name in part.inputs),
            tuple(names[name] for name in part.outputs),
            {names[name]: value for name, value in part.constants.items()},
            frozenset(names[name] for name in part.unsigned),
        )
    )


def _renamed(program: Program, part: LayerGraph, other: LayerGraph) -> Program:
    """Return the program of a part for one that differs from it in names alone."""
    tensors = dict(zip(part.activations, other.activations, strict=True))
    pairs = zip(part.layers, other.layers, strict=True)
    layers = {layer.name: same.name for layer, same in pairs}
    return replace(
        program,
        inputs=tuple(replace(spec, name=tensors[spec.name]) for spec in program.inputs),
        outputs=tuple(replace(spec, name=tensors[spec.name]) for spec in program.outputs),
        layers=tuple(replace(x, name=layers.get(x.name, x.name)) for x in program.layers),
    )


def _efforts(
    parts: Sequence[LayerGraph], programs: Sequence[Program], effort: int
) -> Sequence[int]:
    """Return the share of each part in the effort; none where it would find nothing."""
    idle = measured_once(programs, lambda x: idle_cycles(x.commands, x.config, x.memory))
    layers = [len(part.layers) for part in parts]
    whole = sum(idle) * sum(layers) or 1
    shares = [effort * x * n // whole for x, n in zip(idle, layers, strict=True)]
    return [share if share >= LEAST_EFFORT else 0 for share in shares]


def _tell(progress: Progress, name: str, step: str) -> None:
    progress(name + step)
