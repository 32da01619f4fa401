"""The road from a graph of integer layers to a program, stage by stage."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.streams import conv_stream
from tpulite.collector import collector_paused
from tpulite.compiler.attempt import Attempt
from tpulite.compiler.encode.batch import compile_batch
from tpulite.compiler.encode.warm import without_loads
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.judge import Judge, traffic
from tpulite.compiler.known import Known, unpaced
from tpulite.compiler.limits import Limits
from tpulite.compiler.lower.tile_groups import tile_groups
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool, Pins
from tpulite.compiler.place.placement import place_activations
from tpulite.compiler.planning import choose_groups, choose_plans
from tpulite.compiler.rewrite.stack import unstack_tensors
from tpulite.compiler.rewritten import Rewritten, rewrite_network
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.tile_choice import choose_tiles
from tpulite.golden.check import check
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program

__all__ = ["compile_layers", "compile_pair"]

_DEFAULTS = Options()

_WORTH = 4
"""Commands must be so many times fewer than the effort, or one program is compiled."""


def compile_layers(
    layers: LayerGraph,
    config: Config,
    options: Options = _DEFAULTS,
    *,
    progress: Callable[[str], None] | None = None,
    dump: Callable[[str, object], None] | None = None,
    known: Known | None = None,
) -> Program:
    """Compile a network of integer layers.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.
    progress : callable, optional
        Called with a line of text at every step.
    dump : callable, optional
        Called with the name of each stage and its result, when all are done: of those numbers of
        images that go together, the best one, and of several attempts to fit, the last one.
    known : Known, optional
        What compilations of the same network with the same options share, for machines that differ
        in nothing but speed. The program is the same without it.

    Returns
    -------
    Program
        A program that has passed the static check; equal arguments give equal bytes. Inputs and
        outputs have the names of their images and the shape [height, width, channels]; a batch of
        more than one is an axis in front.

    Raises
    ------
    ValueError
        If a layer does not suit the machine, an output is not computed, or the network does not
        fit, even cut into slices.
    """
    known = known or Known(config)
    if known.config != unpaced(config):
        raise ValueError("Memoized plans are for another configuration")
    program = _build(layers, config, options, None, known, _Watch.of(progress, dump))[0]
    if len(program.commands) > options.effort // _WORTH or not _uses_delay_lines(program):
        return program
    # Larger commands are fewer, and what is searched beside them may come out worse.
    plain = replace(config, delay_lines=False)
    others = known.once("without delay lines", lambda: Known(plain))
    other = _build(layers, plain, options, None, others, _Watch.of(progress, None))[0]
    if _cost(other, options) >= _cost(program, options):
        return program
    if dump is not None:
        _build(layers, plain, options, None, others, _Watch.of(None, dump))
    return replace(other, config=config)


def _uses_delay_lines(program: Program) -> bool:
    """Return whether a program is another one on a machine without delay lines."""
    streams = (
        conv_stream(each.fields, program.config)
        for each in program.commands
        if each.opcode == Opcode.CONV and each["depthwise"]
    )
    return any(stream.lag for stream in streams)


def _cost(program: Program, options: Options) -> tuple[int, int]:
    """Return what is to be small of a program, in the order of importance."""
    cycles = predict_cycles(program.commands, program.config)
    return (traffic(program.commands, program.config) * (options.optimize == "memory"), cycles)


def compile_pair(
    layers: LayerGraph,
    config: Config,
    options: Options = _DEFAULTS,
    *,
    progress: Callable[[str], None] | None = None,
) -> tuple[Program, Program]:
    """Compile a network twice: to load its constants and run, and to run when they are there.

    The first program leaves weights and records in the unified buffer, and neither overwrites
    them: the second one may run any number of times after the first. Parameters and errors are
    those of :func:`compile_layers`.

    Raises
    ------
    ValueError
        If the constants do not fit the unified buffer, or nothing else fits beside them.
    """
    watch = _Watch.of(progress, None)
    cold, left = _build(layers, config, options, False, Known(config), watch)
    warm, wanted = _build(layers, config, options, True, Known(config), watch)
    if left.data != wanted.data:  # plans differ so much that constants do
        warm = without_loads(cold, left.end, prefetch=options.prefetch)
        if violations := check(warm):
            raise AssertionError(f"the compiler generated an illegal program: {violations[0]}")
    return cold, warm


@dataclass(frozen=True)
class _Watch:
    """Whom the stages tell: lines of text, and results."""

    tell: Callable[[str], None]
    dump: Callable[[str, object], None] | None

    @classmethod
    def of(
        cls,
        progress: Callable[[str], None] | None,
        dump: Callable[[str, object], None] | None,
    ) -> "_Watch":
        return cls(progress or (lambda text: None), dump)


@collector_paused()
def _build(
    layers: LayerGraph,
    config: Config,
    options: Options,
    loaded: bool | None,
    known: Known,
    watch: _Watch,
) -> tuple[Program, Pins]:
    """Return a program, and the constants that stay: if ``loaded`` says whether they are there."""
    for name in layers.outputs:
        if name in layers.inputs or name in layers.constants:
            raise ValueError(f"Output {name!r} of {layers.name!r} must be computed by a layer")
    watch.tell("simplify")
    network = known.once("rewrite", lambda: rewrite_network(layers, known.config, options))
    # By the images that go together, results of stages, and constants.
    made: dict[int, dict[str, object]] = {}
    pools: dict[int, ConstantPool] = {}

    def compile_images(count: int) -> Program:
        made[count] = {}
        show = None if watch.dump is None else made[count].__setitem__
        pins = None if loaded is None else Pins(config.ub_banks, loaded=loaded)
        packed = known.once(("pool", count), lambda: ConstantPool(pins))
        choices = replace(options, batch=count)
        program, pools[count] = _compile(
            network, packed, config, choices, known, _Watch(watch.tell, show)
        )
        return program

    if network.stacked:
        program, count = unstack_tensors(compile_images(1), options.batch), 1
    else:
        program, count = compile_batch(compile_images, options)
    if watch.dump is not None:
        results = {
            "simplify": network.simplified,
            "layers": network.layers,
            **made[count],
            "encode": program.commands,
        }
        for stage, value in results.items():
            watch.dump(stage, value)
    watch.tell("check")
    same = known.once(("checked", id(program.commands)), lambda: (program.commands, check(program)))
    if violations := same[1]:
        raise AssertionError(f"the compiler generated an illegal program: {violations[0]}")
    return program, pools[count].pins or Pins(config.ub_banks, loaded=False)


def _compile(
    network: Rewritten,
    packed: ConstantPool,
    config: Config,
    options: Options,
    known: Known,
    watch: _Watch,
) -> tuple[Program, ConstantPool]:
    """Compile a network for all images of a batch together."""
    layers, limits = network.layers, Limits()
    taken = 0 if packed.pins is None else _pinned_rows(layers, packed, known.config, options)
    while True:  # what has too many rows at a time leaves the chip, or is cut
        attempt = Attempt(network, packed, options, limits, taken, known, watch.tell)
        judge = Judge(layers, packed, config, options, limits, known)
        groups = attempt.groups()
        plans = choose_plans(judge, groups, attempt.placement(groups))
        made = attempt.fitted(groups, plans)
        if not isinstance(made.places, Shortage):
            break
        limits = attempt.harder(made.places, groups, plans)
    groups, plans = choose_groups(judge, groups, made.placement, plans, len(made.tiling.ops))
    groups, plans = choose_tiles(judge, attempt, groups, plans)
    program = attempt.program(groups, plans)
    made = attempt.fitted(groups, plans)
    if watch.dump is not None:
        assert not isinstance(made.places, Shortage)
        for stage, value in (
            ("group", groups),
            ("place", made.placement),
            ("tile", made.tiling),
            ("schedule", made.places[0]),
            ("allocate", made.places[1]),
        ):
            watch.dump(stage, value)
    return replace(program, config=config), made.pool


def _pinned_rows(layers: LayerGraph, pool: ConstantPool, config: Config, options: Options) -> int:
    """Return the rows of constants that stay, if each layer cuts itself.

    Raises
    ------
    ValueError
        If the unified buffer has fewer.
    """
    pool, alone = pool.empty(), tuple(Group(range(i, i + 1)) for i in range(len(layers.layers)))
    placement = place_activations(layers, alone, config, options, pool=pool)
    rows = tile_groups(layers, alone, placement, pool, config, options).first_row
    if rows >= config.ub_rows:
        raise ValueError(
            f"Constants of network {layers.name!r} need {rows} rows ({rows * config.row_bytes} "
            f"bytes) to stay, the unified buffer has {config.ub_rows} "
            f"({config.ub_rows * config.row_bytes} bytes) for them and all images"
        )
    return rows
