"""The road from a graph of integer layers to a program, stage by stage."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.collector import collector_paused
from tpulite.compiler.encode.assemble import assemble
from tpulite.compiler.encode.batch import check_sizes, compile_batch
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.compiler.encode.warm import without_loads
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.search import group_layers
from tpulite.compiler.judge import Judge, Plans
from tpulite.compiler.limits import Limits
from tpulite.compiler.lower.tile_groups import tile_groups
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool, Pins
from tpulite.compiler.place.placement import Placement, place_activations
from tpulite.compiler.planning import choose_groups, choose_plans
from tpulite.compiler.rewrite.neighbors import join_neighbors
from tpulite.compiler.rewrite.order import order_layers
from tpulite.compiler.rewrite.patches import pack_patches
from tpulite.compiler.rewrite.picks import mark_views, split_picks
from tpulite.compiler.rewrite.simplify.network import simplify_layers
from tpulite.compiler.rewrite.stack import stack_images, unstack_tensors
from tpulite.compiler.rewrite.substitute import substitute_layers
from tpulite.compiler.rewrite.transposed import split_transposed
from tpulite.compiler.rewrite.unread_pixels import remove_unread_pixels
from tpulite.compiler.schedule.addresses import encode
from tpulite.compiler.schedule.allocate import Allocation
from tpulite.compiler.schedule.fit import fit
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.scheduled import Schedule
from tpulite.golden.check import check
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program

__all__ = ["compile_layers", "compile_pair"]

_DEFAULTS = Options()


def compile_layers(
    layers: LayerGraph,
    config: Config,
    options: Options = _DEFAULTS,
    *,
    progress: Callable[[str], None] | None = None,
    dump: Callable[[str, object], None] | None = None,
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
    return _build(layers, config, options, None, progress=progress, dump=dump)[0]


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
    cold, left = _build(layers, config, options, False, progress=progress)
    warm, wanted = _build(layers, config, options, True, progress=progress)
    if left.data != wanted.data:  # plans differ so much that constants do
        warm = without_loads(cold, left.end, prefetch=options.prefetch)
        if violations := check(warm):
            raise AssertionError(f"The compiler made an illegal program: {violations[0]}")
    return cold, warm


@collector_paused()
def _build(
    layers: LayerGraph,
    config: Config,
    options: Options,
    loaded: bool | None,
    *,
    progress: Callable[[str], None] | None = None,
    dump: Callable[[str, object], None] | None = None,
) -> tuple[Program, Pins]:
    """Return a program, and the constants that stay: if ``loaded`` says whether they are there."""
    for name in layers.outputs:
        if name in layers.inputs or name in layers.constants:
            raise ValueError(f"Output {name!r} of {layers.name!r} must be computed by a layer")
    tell = progress or (lambda text: None)
    tell("simplify")
    split = split_transposed(split_picks(layers, config), config)
    simplified = simplify_layers(split, config, options)
    layers = simplified.layers
    if options.simplify:
        layers = remove_unread_pixels(layers)
    check_sizes(layers, config, options.batch)
    together = stack_images(layers, options.batch)
    stacked, layers = together is not None, together or layers
    macs = layers.macs()
    layers = substitute_layers(order_layers(layers), config)
    if options.dense_mode and not stacked:
        layers = pack_patches(join_neighbors(layers, config), config)
    layers = mark_views(layers, config)
    # By the images that go together, results of stages, and constants.
    made: dict[int, dict[str, object]] = {}
    pools: dict[int, ConstantPool] = {}

    def compile_images(count: int) -> Program:
        made[count] = {}
        show = (lambda stage, value: None) if dump is None else made[count].__setitem__
        pins = None if loaded is None else Pins(config.ub_banks, loaded=loaded)
        pool = ConstantPool(pins)
        choices = replace(options, batch=count)
        program, pools[count] = _compile(layers, macs, config, choices, pool, tell, show)
        return program

    if stacked:
        program, count = unstack_tensors(compile_images(1), options.batch), 1
    else:
        program, count = compile_batch(compile_images, options)
    if dump is not None:
        results = {
            "simplify": simplified,
            "layers": layers,
            **made[count],
            "encode": program.commands,
        }
        for stage, value in results.items():
            dump(stage, value)
    tell("check")
    if violations := check(program):
        raise AssertionError(f"The compiler made an illegal program: {violations[0]}")
    return program, pools[count].pins or Pins(config.ub_banks, loaded=False)


def _compile(
    layers: LayerGraph,
    macs: Mapping[str, int],
    config: Config,
    options: Options,
    pool: ConstantPool,
    tell: Callable[[str], None],
    show: Callable[[str, object], None],
) -> tuple[Program, ConstantPool]:
    """Compile a network for all images of a batch together."""
    limits = Limits()
    taken = 0 if pool.pins is None else _pinned_rows(layers, pool, config, options)

    def tile(groups: tuple[Group, ...], plans: Plans | None) -> tuple[Placement, Plans, Tiling]:
        nonlocal pool
        pool = pool.empty()
        placement = place_activations(
            layers, groups, config, options, pool=pool, outside=limits.outside, taken=taken
        )
        tell("tile")
        if plans is None:
            plans = choose_plans(judge, groups, placement)
        shares = limits.shares
        tiling = tile_groups(
            layers, groups, placement, pool, config, options, shares=shares, plans=plans.convs
        )
        return placement, plans, tiling

    def place(tiling: Tiling, plans: Plans) -> tuple[Schedule, Allocation] | Shortage:
        tell(f"schedule {len(tiling.ops)} commands, and place their buffers")
        part_by_part = limits.part_by_part
        return fit(tiling, config, options, part_by_part=part_by_part, lead=plans.lead)

    while True:  # what has too many rows at a time leaves the chip, or is cut
        judge = Judge(layers, pool, config, options, limits)
        tell("group layers")
        groups = limits.cut(group_layers(layers, config, options, refused=limits.refused))
        placement, plans, tiling = tile(groups, None)
        fitted = place(tiling, plans)
        if not isinstance(fitted, Shortage):
            break
        limits = limits.after(fitted, layers, groups, placement, tiling, config, options)
    better, plans = choose_groups(judge, groups, placement, plans, len(tiling.ops))
    if better != groups:
        groups = better
        placement, plans, tiling = tile(groups, plans)
        fitted = place(tiling, plans)
        assert not isinstance(fitted, Shortage), "the judge has compiled it"
    ordered, allocation = fitted
    for stage, value in (
        ("group", groups),
        ("place", placement),
        ("tile", tiling),
        ("schedule", ordered),
        ("allocate", allocation),
    ):
        show(stage, value)
    tell("encode and insert tokens")
    commands, owners = encode(ordered, allocation.rows)
    commands = insert_tokens(commands, config, prefetch=options.prefetch)
    resident = tiling.resident
    program = assemble(
        layers, macs, placement, pool, commands, owners, config, options.batch, resident
    )
    return program, pool


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
