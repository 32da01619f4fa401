"""How the convolutions of a small program are cut: plans that the whole program is judged by."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import RAW_ROWS, Command, Opcode
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.lower.conv.chunks import conv_extents
from tpulite.compiler.lower.tile_groups import tile_groups
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool, Pins
from tpulite.compiler.place.placement import Placement
from tpulite.compiler.plan.alone import Surroundings
from tpulite.compiler.plan.choices import Site
from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.plan.search import Chosen, search_plans
from tpulite.compiler.schedule.addresses import encode
from tpulite.compiler.schedule.fit import fit
from tpulite.compiler.schedule.online import DoesNotFitError
from tpulite.compiler.schedule.schedule import LEAD, schedule_commands
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Conv, LayerGraph

__all__ = ["Plans", "choose_plans"]

_MOST = 9
"""The effort falls with the square of the number of layers, but not for the first few."""

_LEAST = 500
"""Less effort would find nothing."""


@dataclass(frozen=True)
class Plans:
    """What was chosen.

    Parameters
    ----------
    convs : mapping of int to ConvPlan
        By layer, how it is cut; layers that are not here cut themselves.
    lead : int
        Loads that go ahead of a command, beyond those that it needs.
    """

    convs: Mapping[int, ConvPlan] = field(default_factory=dict)
    lead: int = LEAD


def choose_plans(
    layers: LayerGraph,
    groups: tuple[Group, ...],
    placement: Placement,
    pool: ConstantPool,
    config: Config,
    options: Options,
) -> Plans:
    """Search plans for the layers that run alone, with an effort that small programs are worth.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    groups : tuple of Group
        Which of its layers run together.
    placement : Placement
        Where images are.
    pool : ConstantPool
        Knows what has been packed.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.
    """
    effort = min(options.effort, _MOST * options.effort // len(layers.layers) ** 2)
    documented = options.order == "document"
    settled = not options.prefetch or options.allocator == "cpsat"
    if settled or (effort < _LEAST and not documented):
        return Plans()
    sites = _sites(layers, groups, placement, pool.pins, config)
    if not sites:
        return Plans()

    def plans(chosen: Chosen) -> Plans:
        pairs = zip(sites.items(), chosen[0], strict=True)
        return Plans({i: site.plan(choice) for (i, site), choice in pairs if choice}, chosen[1])

    def lower(chosen: Chosen) -> tuple[Command, ...]:
        made = plans(chosen)
        tiling = tile_groups(
            layers, groups, placement, pool.empty(), config, options, plans=made.convs
        )
        if options.allocator == "online":
            commands, _ = schedule_commands(tiling, config, lead=made.lead)
        else:
            ordered, allocation = fit(tiling, config, options, lead=made.lead)
            commands, _ = encode(ordered, allocation.rows)
        return insert_tokens(commands, config)

    def cost(chosen: Chosen) -> tuple[float, int]:
        try:
            commands = lower(chosen)
        except DoesNotFitError:
            return math.inf, 0
        cycles = predict_cycles(commands, config)
        if options.optimize == "memory":
            return (_traffic(commands, config) << 32) + cycles, len(commands)
        return cycles, len(commands)

    if documented:
        lists = [site.documented() for site in sites.values()]
        states: list[Chosen] = [
            (tuple(each[min(i, len(each) - 1)] if each else None for each in lists), 2)
            for i in range(max(map(len, lists)))
        ]
        return plans(next((state for state in states if cost(state)[0] < math.inf), states[-1]))
    first: Chosen = (None,) * len(sites), LEAD
    return plans(search_plans(tuple(sites.values()), first, cost, effort, options.seed))


def _sites(
    layers: LayerGraph,
    groups: tuple[Group, ...],
    placement: Placement,
    pins: Pins | None,
    config: Config,
) -> dict[int, Site]:
    """Return the layers that can have a plan."""
    pinned, loaded = pins is not None, pins is not None and pins.loaded
    sites = {}
    for group in groups:
        index = group.layers.start
        layer = layers.layers[index]
        if group.slices or group.finer or not isinstance(layer, Conv):
            continue
        source, target = placement.stores[layer.inputs[0]], placement.stores[layer.output]
        extents = conv_extents(layer, source, target, config)
        if extents is None:
            continue
        around = Surroundings(
            free_rows=placement.free_rows[index],
            input_in_dram=not source.resident,
            output_in_dram=not target.resident,
            loaded=source.given or not source.resident,
            stored=target.stored,
            weights_in_dram=not loaded,
            vector_rows=1 if layer.requantization else RAW_ROWS,
            record_rows=config.record_rows if layer.requantization and not pinned else 0,
        )
        sites[index] = Site(extents, around, config)
    return sites


def _traffic(commands: tuple[Command, ...], config: Config) -> int:
    """Return bytes that go to and come from DRAM, commands included."""
    moves = (each for each in commands if each.opcode in (Opcode.LOAD, Opcode.STORE))
    rows = sum(each["lines"] * each["rows"] for each in moves)
    return rows * config.row_bytes + len(commands) * COMMAND_BYTES
