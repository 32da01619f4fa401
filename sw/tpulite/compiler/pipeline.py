"""The road from a graph of integer layers to a program, stage by stage."""

from collections.abc import Callable
from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.streams import conv_stream
from tpulite.collector import collector_paused
from tpulite.compiler.encode.batch import check_sizes, compile_batch
from tpulite.compiler.encode.warm import without_loads
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.options import Options
from tpulite.compiler.passes import (
    PASSES,
    REWRITES,
    check_left_out,
    rewrite,
    run_passes,
    run_rewrites,
)
from tpulite.compiler.place.constants import ConstantPool, Pins
from tpulite.compiler.plan.layer_cost import compute_cycles
from tpulite.compiler.rewrite.stack import unstack_tensors
from tpulite.compiler.stages import cycles_of, place, tile, traffic
from tpulite.compiler.state import Known, State, unpaced
from tpulite.golden.check import check
from tpulite.graph.layers import Depthwise, LayerGraph
from tpulite.program import Program

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
    progress : callable, optional
        Called with a line of text at every step.
    dump : callable, optional
        Called with the name of each pass and what it has made, when all are done: for the best
        number of images that go together.
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
    if known is not None and known.config != unpaced(config):
        raise ValueError("Memoized plans are for another configuration")
    tell = progress or _silent
    start = State.of(layers, config, options, known)
    if not options.timing.is_limited:
        return _compile(start, tell, dump)
    # What groups cost beside such a memory is a rough estimate: it must pay.
    program = _compile(start, tell, None)
    usual = start.known.once("plans for the reference memory", lambda: Known(config))
    other = State.of(layers, config, replace(options, memory=_DEFAULTS.memory), usual)
    rival = replace(_compile(other, tell, None), memory=options.timing)
    if _cost(start, rival) < _cost(start, program):
        start, program = other, rival
    return program if dump is None else replace(_compile(start, tell, dump), memory=options.timing)


def _compile(
    start: State, tell: Callable[[str], None], dump: Callable[[str, object], None] | None
) -> Program:
    """Return the better of two programs: with delay lines, if the machine has any, and without."""
    layers, config, options = start.layers, start.machine, start.options
    program = _build(start, None, tell, dump)[0]
    if len(program.commands) > options.effort // _WORTH or not _uses_delay_lines(program):
        return program
    # Larger commands are fewer, and what is searched beside them may come out worse.
    plain = replace(config, delay_lines=False)
    others = start.known.once("without delay lines", lambda: Known(plain))
    without = State.of(layers, plain, options, others)
    cycles = cycles_of(start, program.commands)
    if options.optimize != "memory" and _depthwise_cycles(rewrite(without).layers, plain) >= cycles:
        return program
    other = _build(without, None, tell, None)[0]
    if _cost(without, other) >= _cost(start, program):
        return program
    if dump is not None:
        _build(without, None, _silent, dump)
    return replace(other, config=config)


def _silent(text: str) -> None:
    """Tell nobody."""


def _uses_delay_lines(program: Program) -> bool:
    """Return whether a program is another one on a machine without delay lines."""
    streams = (
        conv_stream(each.fields, program.config)
        for each in program.commands
        if each.opcode == Opcode.CONV and each["depthwise"]
    )
    return any(stream.lag for stream in streams)


def _depthwise_cycles(layers: LayerGraph, config: Config) -> int:
    """Return the cycles in which the array computes the depthwise layers of an image."""
    images, cycles = layers.activations, 0
    for layer in layers.layers:
        if isinstance(layer, Depthwise):
            source, target = images[layer.inputs[0]], images[layer.output]
            cycles += compute_cycles(layer, (source, target), target.shape[:2], config).mxu
    return cycles


def _cost(state: State, program: Program) -> tuple[int, int]:
    """Return what is to be small of a program, in the order of importance."""
    moved = traffic(program.commands, state.machine) * (state.options.optimize == "memory")
    return moved, cycles_of(state, program.commands)


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
    tell = progress or _silent
    cold, left = _build(State.of(layers, config, options), False, tell, None)
    warm, wanted = _build(State.of(layers, config, options), True, tell, None)
    if left.data != wanted.data:  # plans differ so much that constants do
        warm = without_loads(cold, left.end, prefetch=options.prefetch)
        if violations := check(warm):
            raise AssertionError(f"the compiler generated an illegal program: {violations[0]}")
    return cold, warm


@collector_paused()
def _build(
    start: State,
    loaded: bool | None,
    tell: Callable[[str], None],
    dump: Callable[[str, object], None] | None,
) -> tuple[Program, Pins]:
    """Return a program, and the constants that stay: if ``loaded`` says whether they are there."""
    layers, config, options, known = start.layers, start.config, start.options, start.known
    check_left_out(options.without)
    for name in layers.outputs:
        if name in layers.inputs or name in layers.constants:
            raise ValueError(f"Output {name!r} of {layers.name!r} must be computed by a layer")
    check_sizes(layers, config, options.batch)
    tell("rewrite")
    network = rewrite(start)
    made: dict[int, State] = {}  # by the images that go together
    traces: dict[int, dict[str, State]] = {}

    def compile_images(count: int) -> Program:
        pins = None if loaded is None else Pins(config.ub_banks, loaded=loaded)
        pool = known.once(("pool", count), lambda: ConstantPool(pins))
        state = replace(network, options=replace(options, batch=count), pool=pool)
        if pins is not None:
            state = replace(state, pinned_rows=_pinned_rows(state))
        traces[count] = {}
        made[count] = run_passes(PASSES[len(REWRITES) :], state, tell, traces[count])
        return replace(made[count].program, config=start.machine, memory=options.timing)

    if network.stacked:
        program, count = unstack_tensors(compile_images(1), options.batch), 1
    else:
        program, count = compile_batch(compile_images, options)
    state = made[count]
    if dump is not None:
        trace: dict[str, State] = {}
        run_rewrites(start, trace)
        trace |= traces[count] | {"assemble": replace(state, commands=program.commands)}
        for each in PASSES:
            dump(each.name, getattr(trace[each.name], each.makes))
    tell("check")
    same = known.once(("checked", id(program.commands)), lambda: (program.commands, check(program)))
    if violations := same[1]:
        raise AssertionError(f"the compiler generated an illegal program: {violations[0]}")
    return program, state.pool.pins or Pins(config.ub_banks, loaded=False)


def _pinned_rows(state: State) -> int:
    """Return the rows of constants that stay, if each layer cuts itself.

    Raises
    ------
    ValueError
        If the unified buffer has fewer.
    """
    layers, config = state.layers, state.config
    alone = tuple(Group(range(i, i + 1)) for i in range(len(layers.layers)))
    rows = tile(place(state.choose(groups=alone))).tiling.first_row
    if rows >= config.ub_rows:
        raise ValueError(
            f"Constants of network {layers.name!r} need {rows} rows ({rows * config.row_bytes} "
            f"bytes) to stay, the unified buffer has {config.ub_rows} "
            f"({config.ub_rows * config.row_bytes} bytes) for them and all images"
        )
    return rows
