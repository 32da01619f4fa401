"""The road from a graph of integer layers to a program."""

from collections import defaultdict
from collections.abc import Callable

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.allocate import DoesNotFitError
from tpulite.compiler.concat import concat_ops
from tpulite.compiler.constants import ConstantPool
from tpulite.compiler.context import Context
from tpulite.compiler.conv import conv_ops
from tpulite.compiler.depthwise import depthwise_ops
from tpulite.compiler.ops import Op, Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place import Placement, place_images
from tpulite.compiler.pool import pool_ops
from tpulite.compiler.rearrange import pad_ops, reshape_ops, same_pixels
from tpulite.compiler.schedule import schedule_commands
from tpulite.compiler.tokens import insert_tokens
from tpulite.compiler.vector import affine_ops, elementwise_ops, lut_ops
from tpulite.golden.check import check
from tpulite.golden.cycles import predict_cycles
from tpulite.graph.layers import (
    Affine,
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    Pad,
    Pool,
    Reshape,
)
from tpulite.program import LayerInfo, Program

__all__ = ["compile_layers"]

_DEFAULTS = Options()

_BUDGETS = (1.0, 0.8, 0.6, 0.4, 0.2)
"""Parts of the unified buffer that resident images may take, one tried after the other; strips take
a sixth of that."""

_LEADS = (4, 16, 48)
"""How many loads may go ahead of a product; the fastest program by the cycle model is taken."""

_SEARCHED = 5000
"""Commands of a program for which all of these are tried."""

_LOWERINGS: dict[type[Layer], Callable[..., list[Op]]] = {
    Conv: conv_ops,
    Depthwise: depthwise_ops,
    Elementwise: elementwise_ops,
    Pool: pool_ops,
    Lut: lut_ops,
    Affine: affine_ops,
    Pad: pad_ops,
    Concat: concat_ops,
    Reshape: reshape_ops,
}


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
    show("layers", layers)
    reason = None
    outside: set[str] = set()
    budgets = list(_BUDGETS)
    while budgets:
        budget = budgets[0]
        tell(f"place images in {budget:.0%} of the unified buffer")
        pool = ConstantPool()
        placement = place_images(layers, config, budget, pool, frozenset(outside))
        try:
            ops = _lower(layers, config, placement, pool, budget)
            tiling = Tiling(
                tuple(ops), placement.inputs, placement.outputs, placement.scratch_bytes
            )
            show("place", placement)
            show("tile", tiling)
            tell(f"schedule {len(ops)} commands")
            commands, infos = _schedule(tiling, layers, config)
            break
        except DoesNotFitError as error:
            reason = error
            if error.name in layers.images and error.name not in outside:
                outside.add(error.name)
            else:
                budgets.pop(0)
    else:
        raise ValueError(
            f"Network {layers.name!r} does not fit the unified buffer of {config.ub_rows} rows, "
            f"even cut into strips. {reason}"
        )
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


def _lower(
    layers: LayerGraph, config: Config, placement: Placement, pool: ConstantPool, budget: float
) -> list[Op]:
    """Return the commands of all layers, in an order in which they could run."""
    stores = dict(placement.stores)
    strip_rows = int(budget * config.ub_rows) // 6
    channels = {name: image.shape[2] for name, image in layers.images.items()}
    ops: list[Op] = []
    for index, layer in enumerate(layers.layers):
        context = Context(
            index,
            layer.name,
            config,
            pool,
            stores,
            channels,
            strip_rows,
            placement.free_rows[index],
        )
        if isinstance(layer, Reshape):
            source, target = stores[layer.inputs[0]], stores[layer.output]
            if same_pixels(source, target) and source.resident and target.spec is None:
                ops += source.read(range(source.height), index)[1]
                stores[layer.output] = source.alias(layer.output, target.height, target.width)
                continue
        try:
            ops += _LOWERINGS[type(layer)](layer, context)
        except ValueError as error:
            raise ValueError(f"Layer {layer.name!r}: {error}") from error
    return ops


def _schedule(
    tiling: Tiling, layers: LayerGraph, config: Config
) -> tuple[tuple[Command, ...], tuple[LayerInfo, ...]]:
    """Order commands, place buffers, insert tokens; return the fastest program."""
    best = None
    leads = _LEADS if len(tiling.ops) <= _SEARCHED else _LEADS[:1]
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
