"""The road from a graph of integer layers to a program."""

from collections import defaultdict
from collections.abc import Callable

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.allocate import DoesNotFitError
from tpulite.compiler.constants import ConstantPool
from tpulite.compiler.grouping import group_layers
from tpulite.compiler.limits import Limits
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.order import order_layers
from tpulite.compiler.place import place_images
from tpulite.compiler.schedule import schedule_commands
from tpulite.compiler.tile_groups import tile_groups
from tpulite.compiler.tokens import insert_tokens
from tpulite.golden.check import check
from tpulite.golden.cycles import predict_cycles
from tpulite.graph.layers import LayerGraph
from tpulite.program import LayerInfo, Program

__all__ = ["compile_layers"]

_DEFAULTS = Options()

_LEADS = (4, 16, 48)
"""How many loads may go ahead of a product; the fastest program by the cycle model is taken."""

_SEARCHED = 5000
"""Commands of a program for which all of these are tried."""


def compile_layers(
    layers: LayerGraph,
    config: Config,
    options: Options = _DEFAULTS,
    *,
    progress: Callable[[str], None] | None = None,
    dump: Callable[[str, object], None] | None = None,
) -> Program:
    """Compile a network of integer layers, one image a run.

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
        Called with the name of a stage and its result when the stage is done; if it is done several
        times, the last result counts.

    Returns
    -------
    Program
        A program that has passed the static check; equal arguments give equal bytes. Inputs and
        outputs have the names of their images and the shape [height, width, channels].

    Raises
    ------
    ValueError
        If a layer does not suit the machine, or an output is not computed.
    """
    for name in layers.outputs:
        if name in layers.inputs or name in layers.constants:
            raise ValueError(f"Output {name!r} of {layers.name!r} must be computed by a layer")
    tell = progress or (lambda text: None)
    show = dump or (lambda stage, value: None)
    layers = order_layers(layers)
    show("layers", layers)
    limits = Limits()
    while True:
        tell("group layers and place images")
        groups = group_layers(layers, config, options, refused=limits.refused)
        show("group", groups)
        pool = ConstantPool()
        placement = place_images(
            layers, groups, config, options, pool=pool, outside=limits.outside
        )
        show("place", placement)
        tiling = tile_groups(
            layers, groups, placement, pool, config, options, shares=limits.shares
        )
        show("tile", tiling)
        tell(f"schedule {len(tiling.ops)} commands")
        try:
            commands, infos = _schedule(tiling, layers, config, options)
            break
        except DoesNotFitError as error:
            limits = limits.after(error, layers, groups, placement, tiling, config)
    sizes = {
        Window.CONSTANTS: len(pool.image()),
        Window.INPUT: sum(spec.nbytes(config) for spec in placement.inputs),
        Window.OUTPUT: sum(spec.nbytes(config) for spec in placement.outputs),
        Window.SCRATCH: placement.scratch_bytes,
    }
    program = Program(
        config=config,
        commands=commands,
        constants=pool.image(),
        window_bytes=tuple(sizes[window] for window in Window),
        inputs=placement.inputs,
        outputs=placement.outputs,
        layers=infos,
    )
    show("encode", commands)
    tell("check")
    if violations := check(program):
        raise AssertionError(f"The compiler made an illegal program: {violations[0]}")
    return program


def _schedule(
    tiling: Tiling, layers: LayerGraph, config: Config, options: Options
) -> tuple[tuple[Command, ...], tuple[LayerInfo, ...]]:
    """Order commands, place buffers, insert tokens; return the fastest program."""
    best = None
    leads = _LEADS if len(tiling.ops) <= _SEARCHED else _LEADS[:1]
    leads = leads if options.prefetch else (0,)
    for lead in leads:
        commands, owners = schedule_commands(tiling, config, lead=lead)
        commands = insert_tokens(commands, config)
        cycles = predict_cycles(commands, config) if len(leads) > 1 else 0
        if best is None or cycles < best[0]:
            best = (cycles, commands, owners)
    assert best is not None
    _, commands, owners = best
    numbers: dict[tuple[int, Opcode], list[int]] = defaultdict(list)
    for number, (command, owner) in enumerate(zip(commands, owners, strict=False)):
        numbers[owner, command.opcode].append(number)
    infos = []
    macs = layers.macs()
    for index, layer in enumerate(layers.layers):
        height, width, channels = layers.images[layer.output].shape
        depth = macs.get(layer.name, 0) // (height * width * channels)
        mine = list(numbers[index, Opcode.CONV])
        if not depth:
            mine = sorted(mine + numbers[index, Opcode.VECTOR])
        infos.append(LayerInfo(layer.name, height * width, depth, channels, tuple(mine)))
    return commands, tuple(infos)
