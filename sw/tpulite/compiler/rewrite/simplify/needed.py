"""Which channels of each image have to be computed."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tpulite.compiler.rewrite.simplify.ranges import Range
from tpulite.graph.layers import (
    Concat,
    Conv,
    DepthToSpace,
    LayerGraph,
    MatMul,
    Pick,
    Reshape,
    Softmax,
    Transpose,
    TransposedConv,
)

Mask = NDArray[np.bool_]

_WHOLE = DepthToSpace | Pick | MatMul | Softmax | Transpose | TransposedConv

_FEW = 16
"""Outputs of a convolution of which almost every input is read by one."""


def needed_channels(layers: LayerGraph, ranges: Mapping[str, Range], block: int) -> dict[str, Mask]:
    """Return a mask of the needed channels of every image by name; at least one is needed.

    A channel is needed if a result of the network, or a needed channel that is computed of it,
    depends on its values. Convolutions choose what they read, all other layers need the same
    channels on both sides. These are the fewest channels with which all of this holds.

    Parameters
    ----------
    layers : LayerGraph
        The network. All channels of its inputs and outputs are needed.
    ranges : mapping of str to Range
        What the channels of its images can hold.
    block : int
        Channels of a block. Where parts of a concatenation begin at multiples of it, they still do,
        and a reshape to other pixels still moves whole blocks.
    """
    needed = {name: np.zeros(image.shape[2], bool) for name, image in layers.activations.items()}
    for name in (*layers.inputs, *layers.outputs):
        needed[name][:] = True
    _spread(layers, needed, ranges, block)
    for mask in needed.values():
        if not mask.any():
            mask[0] = True
    _spread(layers, needed, ranges, block)
    return needed


def foldable(layer: Conv, x: Range) -> Mask:
    """Return which channels a convolution need not read: their part of its sums is a constant.

    Padding adds nothing to sums, so a constant adds the same at borders only if it is the input's
    zero point, or if there is no padding. Raw sums have no bias that could take a constant.
    """
    nothing = x.low == layer.input_zero_point
    if any(layer.padding) or layer.requantization is None:
        return x.constant & nothing
    return x.constant


def _read(layer: Conv, needed: Mask, folded: Mask, outputs: Mask) -> None:
    """Mark those inputs of a convolution that some of its outputs depend on."""
    left, columns = np.flatnonzero(~needed & ~folded), np.flatnonzero(outputs)
    for some in (columns[:_FEW], columns):  # almost every input is read by one of the first few
        if left.size:
            weight = layer.weight[:, :, left[:, None], some]
            read = (weight != layer.weight_zero_point).any(axis=(0, 1, 3))
            needed[left[read]] = True
            left = left[~read]


def _spread(
    layers: LayerGraph, needed: dict[str, Mask], ranges: Mapping[str, Range], block: int
) -> None:
    """Mark more channels until all that is needed can be computed."""
    before = -1
    while (count := sum(int(mask.sum()) for mask in needed.values())) != before:
        before = count
        for layer in reversed(layers.layers):
            masks = [needed[name] for name in layer.inputs]
            output = needed[layer.output]
            if isinstance(layer, Conv):
                folded = foldable(layer, ranges[layer.inputs[0]])
                _read(layer, masks[0], folded, output)
            elif isinstance(layer, Reshape):
                _reshape(layers, layer, needed, block)
            elif isinstance(layer, Concat) and layer.axis == 2:
                _concat(masks, output, block)
            elif isinstance(layer, _WHOLE):
                for mask in (*masks, output):  # they stay as they are
                    mask[:] = True
            else:
                output |= np.any(masks, axis=0)
                for mask in masks:
                    mask |= output


def _reshape(layers: LayerGraph, layer: Reshape, needed: dict[str, Mask], block: int) -> None:
    ends = [(needed[x], layers.activations[x].shape) for x in (layer.inputs[0], layer.output)]
    for (mask, source), (other, target) in (ends, ends[::-1]):
        if source[2] != target[2]:
            _fill(mask, block)
        other |= _moved(mask, source, target)


def _moved(mask: Mask, source: tuple[int, int, int], target: tuple[int, int, int]) -> Mask:
    """Return the channels of the target that hold elements of these channels of the source."""
    if source[2] == target[2]:
        return mask
    return np.asarray(np.broadcast_to(mask, source).reshape(target).any(axis=(0, 1)))


def _concat(parts: list[Mask], output: Mask, block: int) -> None:
    starts = np.cumsum([len(part) for part in parts])[:-1]
    aligned = not (starts % block).any()
    for part, section in zip(parts, np.split(output, starts), strict=True):
        part |= section
        if aligned and part is not parts[-1]:
            _fill(part, block)
        section |= part


def _fill(mask: Mask, block: int) -> None:
    """Mark some more channels, so that they fill blocks."""
    mask[np.flatnonzero(~mask)[: -mask.sum() % block]] = True
