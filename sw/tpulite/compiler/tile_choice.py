"""A network of one layer as tiles, where that takes fewer cycles than strips."""

from tpulite.compiler.attempt import Attempt
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.judge import Judge, Plans
from tpulite.compiler.lower.tiles import TiledLayer
from tpulite.compiler.schedule.online import Shortage

__all__ = ["choose_tiles"]

_TRIES = 3
"""Strategies that are tried, the cheapest by its closed form first."""

_OVER = 1.06
"""What the closed form may say too much."""

_LESS = 0.99
"""Part of the cycles at which tiles replace strips: for less, programs stay as they are."""


def choose_tiles(
    judge: Judge, attempt: Attempt, groups: tuple[Group, ...], plans: Plans
) -> tuple[tuple[Group, ...], Plans]:
    """Return groups and plans: those of tiles, where the program takes fewer cycles.

    Parameters
    ----------
    judge : Judge
        Knows the network, and what a program costs.
    attempt : Attempt
        Makes programs.
    groups : tuple of Group
        Groups that fit.
    plans : Plans
        How their layers are cut.
    """
    options, (layer, *others) = judge.options, judge.layers.layers
    settled = not options.prefetch or options.order != "fast" or options.allocator != "online"
    settled |= judge.limits.part_by_part or not options.grouping or not options.interleaved
    if settled or others or not options.effort:
        return groups, plans
    alone = (Group(range(1)),)
    stores = attempt.placement(alone).stores
    pair = stores[layer.inputs[0]].part(), stores[layer.output].part()
    channels = judge.layers.activations[layer.inputs[0]].shape[2]
    tiled = TiledLayer.of(layer, 0, pair, channels, attempt.packed, read=False)
    if tiled is None:
        return groups, plans
    commands = attempt.program(groups, plans).commands
    best, least, left = (groups, plans), judge.cost_of(commands), options.effort
    images, cycles = options.batch, judge.cycles(commands)
    for tiles in tiled.plans(judge.known.config.ub_rows, chained=False)[:_TRIES]:
        if tiles.cycles * images > cycles * _OVER:
            break
        tried = alone, Plans({0: tiles}, plans.lead)
        if left < len(commands) or isinstance(attempt.fitted(*tried).places, Shortage):
            break
        commands = attempt.program(*tried).commands
        left -= len(commands)
        if (found := judge.cost_of(commands)) < _LESS * least:
            best, least = tried, found
    return best
