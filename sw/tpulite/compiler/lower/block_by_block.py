"""Depthwise layers channel block by channel block, alone or with what computes their input."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.geometry.extents import block_parts
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.lower.lowering import LayerContext, Lowering
from tpulite.compiler.lower.slicing import SlicedGroup
from tpulite.compiler.ops import Op
from tpulite.compiler.place.stores import Store
from tpulite.compiler.plan.depthwise_rows import DepthwiseRows
from tpulite.graph.layers import Layer, LayerGraph

Lower = Callable[
    [Layer, int, Mapping[str, Store], DepthwiseRows | None], tuple[LayerContext, Lowering]
]
"""Lowers some channels of a layer, of which there is the index, with these images; its plan is
given or not."""


def pair_by_blocks(
    layers: LayerGraph,
    members: range,
    stores: Mapping[str, Store],
    config: Config,
    plan: DepthwiseRows,
    lower: Lower,
) -> Iterator[Op]:
    """Yield the commands of two layers, some channel blocks of both after the others.

    The second one reads a part when the first one has computed the next: then it need not wait for
    the last sums.

    Parameters
    ----------
    members : range
        A convolution, and the depthwise one that reads it.
    stores : mapping of str to Store
        Their images.
    plan : DepthwiseRows
        How the second one is cut.
    lower : callable
        Lowers a part of a layer.
    """
    i, j = members
    first, second = layers.layers[i], layers.layers[j]
    middle, parts = first.output, block_parts(layers, members, config)
    plan = replace(plan, by_block=False)  # it is cut here
    behind: Iterator[Op] = iter(())
    cuts = (cut_channels(layer, stores, parts, config.array_size) for layer in (first, second))
    for (computing, sources), (reading, targets) in zip(*cuts, strict=True):
        here = {middle: targets[middle].here()}
        yield from lower(computing, i, {**sources, **here}, None)[1].alone()
        yield from behind
        behind = lower(reading, j, {**targets, **here}, plan)[1].alone()
    yield from behind


def strips_by_blocks(
    layers: LayerGraph,
    group: Group,
    layer: Layer,
    stores: Mapping[str, Store],
    plan: DepthwiseRows,
    lower: Lower,
) -> Iterator[Op]:
    """Yield the commands of a depthwise layer, strip by strip of a channel block.

    Parameters
    ----------
    group : Group
        The layer, its strips, and whether they keep the rows that they share.
    layer : Layer
        The layer, or some channels of it.
    stores, plan, lower
        Those of :func:`pair_by_blocks`.
    """
    blocks, size = stores[layer.output].blocks, plan.space.config.array_size
    plan = replace(plan, by_block=False)
    for part, some in cut_channels(layer, stores, blocks, size):
        sliced = SlicedGroup(layers, group, some, parted=False)
        index = group.layers.start
        yield from sliced.ops({index: lower(part, index, sliced.stores, plan)}, again=False)


def cut_channels(
    layer: Layer, stores: Mapping[str, Store], parts: int, size: int
) -> Iterator[tuple[Layer, Mapping[str, Store]]]:
    """Yield parts of a layer: each is the same layer of some channel blocks.

    Outputs of a convolution, or product, need all blocks of its first input; all other layers need
    the same ones.

    Parameters
    ----------
    layer : Layer
        A layer whose channels can be cut.
    stores : mapping of str to Store
        Its images, one of the batch; those that are resident and given have been loaded.
    parts : int
        How many, if there are so many blocks.
    size : int
        Channels of a block.
    """
    if parts == 1:
        yield layer, stores
        return
    target = stores[layer.output]
    for blocks in split(target.blocks, parts, 1):
        channels = slice(blocks.start * size, blocks.stop * size)
        some = {
            name: store
            if layer.mixes_channels and name == layer.inputs[0]
            else store.some_blocks(blocks)
            for name, store in stores.items()
        }
        yield layer.of_channels(channels), some
