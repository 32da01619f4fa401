"""The road from a network to a program."""

import math

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.dense.pack import Constants, pack_constants
from tpulite.compiler.dense.plan import NetworkPlan
from tpulite.compiler.dense.search import EFFORT, plan_network
from tpulite.compiler.dense.tile import Residency, check_sizes, tile_network
from tpulite.compiler.encoding.tokens import insert_tokens
from tpulite.compiler.ops import Tiling
from tpulite.compiler.plan.estimate import estimate_cycles
from tpulite.compiler.scheduling.allocate import DoesNotFitError
from tpulite.compiler.scheduling.schedule import schedule_commands
from tpulite.golden.check import check
from tpulite.graph.network import Network
from tpulite.program import LayerInfo, Program

__all__ = ["ORDERS", "compile_network", "compile_pair"]

ORDERS = ("fast", "document")
"""Loop orders: ``fast`` is searched; ``document`` takes all n-blocks for one k-tile after another,
each with accumulators of its own."""


def compile_network(
    network: Network, config: Config, *, batch: int, order: str = "fast", effort: int = EFFORT
) -> Program:
    """Compile a network.

    Parameters
    ----------
    network : Network
        The network.
    config : Config
        The machine.
    batch : int
        Input vectors of a run.
    order : str
        One of :data:`ORDERS`; the results are the same bits.
    effort : int
        Commands that the search for a fast plan may estimate; 0 takes the first plan that fits.

    Returns
    -------
    Program
        A program that has passed the static check; equal arguments give equal bytes.

    Raises
    ------
    ValueError
        If the network does not suit the machine.
    """
    return _compile(network, config, batch, order, effort, None)


def compile_pair(
    network: Network, config: Config, *, batch: int, order: str = "fast", effort: int = EFFORT
) -> tuple[Program, Program]:
    """Compile a network twice: to load its constants and run, and to run when they are there.

    The first program leaves the constants in the unified buffer, and neither overwrites them: the
    second one may run any number of times after the first.

    Raises
    ------
    ValueError
        If the network does not suit the machine, or its constants do not fit the unified buffer.
    """
    cold = _compile(network, config, batch, order, effort, Residency(loaded=False))
    warm = _compile(network, config, batch, order, effort, Residency(loaded=True))
    return cold, warm


def _compile(
    network: Network,
    config: Config,
    batch: int,
    order: str,
    effort: int,
    residency: Residency | None,
) -> Program:
    if order not in ORDERS:
        raise ValueError(f"order must be one of {ORDERS}, not {order!r}")
    check_sizes(network, config, batch)
    constants = pack_constants(network, config)

    def lower(plan: NetworkPlan) -> tuple[Tiling, tuple[Command, ...], tuple[int, ...]]:
        tiling = tile_network(network, constants, plan, config, batch=batch, residency=residency)
        commands, layers = schedule_commands(tiling, config, lead=plan.lead)
        return tiling, insert_tokens(commands, config), layers

    def cost(plan: NetworkPlan) -> float:
        try:
            return estimate_cycles(lower(plan)[1], config)
        except DoesNotFitError:
            return math.inf

    plan = plan_network(network, constants, config, batch, order, residency, effort, cost)
    program = _program(network, constants, config, batch, *lower(plan))
    if violations := check(program):
        raise AssertionError(f"The compiler made an illegal program: {violations[0]}")
    return program


def _program(
    network: Network,
    constants: Constants,
    config: Config,
    batch: int,
    tiling: Tiling,
    commands: tuple[Command, ...],
    layers: tuple[int, ...],
) -> Program:
    """Join everything that a device needs."""
    sizes = {
        Window.CONSTANTS: len(constants.image),
        Window.INPUT: sum(spec.nbytes(config) for spec in tiling.inputs),
        Window.OUTPUT: sum(spec.nbytes(config) for spec in tiling.outputs),
        Window.SCRATCH: tiling.scratch_bytes,
    }
    infos = []
    for i, layer in enumerate(network.layers):
        matmuls = tuple(
            index
            for index, (command, of) in enumerate(zip(commands, layers, strict=False))
            if of == i and command.opcode == Opcode.CONV
        )
        infos.append(LayerInfo(layer.name, batch, layer.k, layer.n, matmuls))
    return Program(
        config=config,
        commands=commands,
        constants=constants.image,
        window_bytes=tuple(sizes[window] for window in Window),
        inputs=tiling.inputs,
        outputs=tiling.outputs,
        layers=tuple(infos),
        resident=tiling.resident,
    )
