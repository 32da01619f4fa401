"""The road from a graph of integer layers to a program, stage by stage."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.compiler.encoding.assemble import assemble
from tpulite.compiler.encoding.batch import compile_batch
from tpulite.compiler.encoding.encode import encode
from tpulite.compiler.encoding.tokens import insert_tokens
from tpulite.compiler.grouping.search import group_layers
from tpulite.compiler.limits import Limits
from tpulite.compiler.neighbors import join_neighbors
from tpulite.compiler.options import Options
from tpulite.compiler.order import order_layers
from tpulite.compiler.patches import pack_patches
from tpulite.compiler.planning import Plans, choose_plans
from tpulite.compiler.scheduling.fit import fit
from tpulite.compiler.scheduling.online import DoesNotFitError
from tpulite.compiler.simplify.network import simplify_layers
from tpulite.compiler.stack import stack_images, unstack_tensors
from tpulite.compiler.substitute import substitute_layers
from tpulite.compiler.tiling.constants import ConstantPool
from tpulite.compiler.tiling.place import place_images
from tpulite.compiler.tiling.tile_groups import tile_groups
from tpulite.compiler.unread_pixels import remove_unread_pixels
from tpulite.golden.check import check
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program

__all__ = ["compile_layers"]

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
    for name in layers.outputs:
        if name in layers.inputs or name in layers.constants:
            raise ValueError(f"Output {name!r} of {layers.name!r} must be computed by a layer")
    tell = progress or (lambda text: None)
    tell("simplify")
    simplified = simplify_layers(layers, config, options)
    layers = simplified.layers
    if options.simplify:
        layers = remove_unread_pixels(layers)
    together = stack_images(layers, options.batch, config)
    stacked, layers = together is not None, together or layers
    macs = layers.macs()
    layers = substitute_layers(order_layers(layers), config)
    if options.dense_mode:
        layers = pack_patches(join_neighbors(layers, config), config)
    made: dict[int, dict[str, object]] = {}  # by the images that go together, results of stages

    def compile_images(count: int) -> Program:
        made[count] = {}
        show = (lambda stage, value: None) if dump is None else made[count].__setitem__
        return _compile(layers, macs, config, replace(options, batch=count), tell, show)

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
    return program


def _compile(
    layers: LayerGraph,
    macs: Mapping[str, int],
    config: Config,
    options: Options,
    tell: Callable[[str], None],
    show: Callable[[str, object], None],
) -> Program:
    """Compile a network for all images of a batch together."""
    limits = Limits()
    while True:  # until everything fits: what does not changes the next attempt
        tell("group layers")
        groups = group_layers(layers, config, options, refused=limits.refused)
        groups = limits.cut(groups)
        show("group", groups)
        pool = ConstantPool()
        placement = place_images(layers, groups, config, options, pool=pool, outside=limits.outside)
        show("place", placement)
        tell("tile")
        plans = Plans()
        if limits == Limits() and options.batch == 1:
            plans = choose_plans(layers, groups, placement, pool, config, options)
        tiling = tile_groups(
            layers,
            groups,
            placement,
            pool,
            config,
            options,
            shares=limits.shares,
            plans=plans.convs,
        )
        show("tile", tiling)
        try:
            tell(f"schedule {len(tiling.ops)} commands, and place their buffers")
            ordered, allocation = fit(tiling, config, options, apart=limits.apart, lead=plans.lead)
            break
        except DoesNotFitError as error:
            limits = limits.after(error, layers, groups, placement, tiling, config, options)
    show("schedule", ordered)
    show("allocate", allocation)
    tell("encode and insert tokens")
    commands, owners = encode(ordered, allocation.rows)
    commands = insert_tokens(commands, config, prefetch=options.prefetch)
    return assemble(layers, macs, placement, pool, commands, owners, config, options.batch)
