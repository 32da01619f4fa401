"""A network of one layer as tiles, where that takes fewer cycles than strips."""

from tpulite.compiler.geometry.group import Group
from tpulite.compiler.lower.tiles import TiledLayer
from tpulite.compiler.stages import cost_of, encode, lower, place
from tpulite.compiler.state import Plans, State
from tpulite.golden.timing import predict_cycles

__all__ = ["choose_tiles"]

_TRIES = 3
"""Strategies that are tried, the cheapest by its closed form first."""

_OVER = 1.06
"""What the closed form may say too much."""

_LESS = 0.99
"""Part of the cycles at which tiles replace strips: for less, programs stay as they are."""


def choose_tiles(state: State) -> State:
    """Choose tiles, where the program takes fewer cycles."""
    options, (layer, *others) = state.options, state.layers.layers
    settled = not options.prefetch or options.order != "fast" or options.allocator != "online"
    settled |= state.limits.part_by_part or not options.grouping or not options.interleaved
    if settled or others or not options.effort:
        return state
    alone = place(state.choose(groups=(Group(range(1)),)))
    stores = alone.placement.stores
    pair = stores[layer.inputs[0]].part(), stores[layer.output].part()
    channels = state.layers.activations[layer.inputs[0]].shape[2]
    tiled = TiledLayer.of(layer, 0, pair, channels, state.pool, read=False)
    if tiled is None:
        return state
    commands = encode(lower(state)).commands
    best, least, left = state, cost_of(state, commands), options.effort
    images, cycles = options.batch, predict_cycles(commands, state.machine)
    for tiles in tiled.plans(state.config.ub_rows, chained=False)[:_TRIES]:
        if tiles.cycles * images > cycles * _OVER:
            break
        if left < len(commands):
            break
        tried = lower(place(alone.choose(plans=Plans({0: tiles}, state.plans.lead))))
        if tried.shortage is not None:
            break
        commands = encode(tried).commands
        left -= len(commands)
        if (found := cost_of(state, commands)) < _LESS * least:
            best, least = tried, found
    return best
