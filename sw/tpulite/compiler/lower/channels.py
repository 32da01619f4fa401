"""A layer cut by channel blocks: some of them at a time, as if they were all."""

from collections.abc import Iterator, Mapping

from tpulite.compiler.geometry.cut import split
from tpulite.compiler.place.stores import Store
from tpulite.graph.layers import (
    Concat,
    Conv,
    DepthToSpace,
    Layer,
    MatMul,
    Pick,
    Reshape,
    Softmax,
    Transpose,
)


def channels_can_be_cut(layer: Layer) -> bool:
    """Return whether blocks of a layer's output can be computed one after the other.

    Reshaping is left out, and so are joining channels and picking others than the first ones: what
    they move lies in other blocks later. Softmax needs all channels, and channels of a product with
    a transposed matrix are rows of that.
    """
    return not (
        isinstance(layer, DepthToSpace | Reshape | Softmax | Transpose)
        or (isinstance(layer, Pick) and layer.channels != tuple(range(len(layer.channels))))
        or (isinstance(layer, Concat) and layer.axis == 2)
        or (isinstance(layer, MatMul) and (len({*layer.inputs}) == 1 or layer.transposed))
    )


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
            if isinstance(layer, Conv | MatMul) and name == layer.inputs[0]
            else store.some_blocks(blocks)
            for name, store in stores.items()
        }
        yield layer.of_channels(channels), some
