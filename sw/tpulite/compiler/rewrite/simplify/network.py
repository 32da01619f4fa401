"""Everything that makes a network of integer layers smaller and keeps its results."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.numerics import INT8
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.simplify.ranges import Range, value_ranges
from tpulite.golden.ops import wrap32
from tpulite.graph.layers import (
    Activation,
    Concat,
    Conv,
    DepthToSpace,
    Layer,
    LayerGraph,
    Lut,
    MatMul,
    Pick,
    Requantization,
    Reshape,
    Softmax,
    Transpose,
    TransposedConv,
    has_int16,
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


@dataclass(frozen=True, eq=False)
class Simplified:
    """A network that computes the same results with less, and what became of its images."""

    layers: LayerGraph  #: The network; its inputs and outputs are those that it had.
    #: Images that are gone, each with the one that equals it.
    originals: Mapping[str, str] = field(default_factory=dict)
    #: Mapping of str to ndarray of bool, [C]. Of each image that has fewer channels than before:
    #: which ones are left.
    needed: Mapping[str, Mask] = field(default_factory=dict)
    #: Of these images: what their channels can hold.
    ranges: Mapping[str, Range] = field(default_factory=dict)
    removed_macs: int = 0  #: Multiplications that need not be done any more.

    @property
    def removed_channels(self) -> int:
        """Channels of all images that are not computed any more."""
        return sum(int((~mask).sum()) for mask in self.needed.values())

    def known(self, name: str) -> Mask | None:
        """Return which channels of an image are computed or constant; None if all are."""
        name = self.originals.get(name, name)
        if name not in self.needed:
            return None
        return self.needed[name] | self.ranges[name].constant

    def restore(self, images: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Return images as they were before.

        Channels that nobody computes are their constant, and where they are none, the least number
        that they could hold: :meth:`known` tells them apart.

        Parameters
        ----------
        images : mapping of str to ndarray, [..., C]
            Images of the network; uint8 ones are int8 ones with their top bit inverted.
        """
        wide = {name: self._widen(name, image) for name, image in images.items()}
        copies = {name: wide[x] for name, x in self.originals.items() if x in wide}
        return wide | copies

    def _widen(self, name: str, image: NDArray) -> NDArray:
        if name not in self.needed:
            return image
        low = self.ranges[name].low.astype(np.int8)
        fill = low.view(np.uint8) ^ 0x80 if image.dtype == np.uint8 else low
        wide = np.empty((*image.shape[:-1], len(fill)), image.dtype)
        wide[...] = fill
        wide[..., self.needed[name]] = image
        return wide


def simplify_layers(layers: LayerGraph, config: Config, options: Options) -> Simplified:
    """Remove channels that are constant or that nobody reads, and tables that change nothing.

    Parameters
    ----------
    config : Config
        The machine: what begins at a block of its channels still does.
    options : Options
        Whether to do it at all.
    """
    if not options.simplify or has_int16(layers):
        return Simplified(layers)
    ranges = value_ranges(layers)
    whole, originals = remove_copies(layers, ranges)
    every = needed_channels(whole, ranges, config.array_size)
    needed = {name: mask for name, mask in every.items() if not mask.all()}
    if not needed:
        return Simplified(whole, originals)
    narrow = keep_channels(whole, every, ranges)
    macs = (sum(each.macs().values()) for each in (whole, narrow))
    return Simplified(
        narrow, originals, needed, {name: ranges[name] for name in needed}, next(macs) - next(macs)
    )


def keep_channels(
    layers: LayerGraph, needed: Mapping[str, Mask], ranges: Mapping[str, Range]
) -> LayerGraph:
    """Return a network without the channels that are not needed.

    What such channels, if they are constant, add to the sums of a convolution goes into its bias.

    Parameters
    ----------
    needed : mapping of str to ndarray of bool, [C]
        For each of its images, what
        :func:`tpulite.compiler.rewrite.simplify.network.needed_channels` says.
    ranges : mapping of str to Range
        What its channels can hold.
    """
    return replace(
        layers,
        layers=tuple(_narrow(layer, needed, ranges[layer.inputs[0]]) for layer in layers.layers),
        activations={
            name: Activation((*image.shape[:2], int(needed[name].sum())), image.dtype)
            for name, image in layers.activations.items()
        },
        constants={name: value[..., needed[name]] for name, value in layers.constants.items()},
    )


def _narrow(layer: Layer, needed: Mapping[str, Mask], x: Range) -> Layer:
    inputs, outputs = needed[layer.inputs[0]], needed[layer.output]
    if inputs.all() and outputs.all():
        return layer
    if isinstance(layer, Conv):
        record = layer.requantization and _fold(layer, layer.requantization, ~inputs, x)
        layer = replace(layer, weight=layer.weight[:, :, inputs], requantization=record)
    return layer.of_channels(outputs)


def _fold(layer: Conv, record: Requantization, missing: Mask, x: Range) -> Requantization:
    """Add to the bias what constants that are not read add to the sums."""
    folded = missing & foldable(layer, x)
    centered = (x.low - layer.input_zero_point)[folded]
    if not centered.any():
        return record
    weight = layer.weight[:, :, folded].astype(np.int64) - layer.weight_zero_point
    added = centered @ weight.sum(axis=(0, 1))
    return replace(record, bias=wrap32(record.bias + added).astype(np.int32))


def remove_copies(
    layers: LayerGraph, ranges: Mapping[str, Range]
) -> tuple[LayerGraph, dict[str, str]]:
    """Remove what changes nothing: tables from uint8 to int8 of the same scale, say, and reshapes.

    An output that is a copy is computed by the layer that computes the original.

    Parameters
    ----------
    layers : LayerGraph
        The network. Its outputs stay.
    ranges : mapping of str to Range
        What the channels of its images can hold.

    Returns
    -------
    LayerGraph
        The network without them.
    dict of str to str
        Images that are gone, each with the one that equals it.
    """
    originals: dict[str, str] = {}
    kept = []
    for layer in layers.layers:
        inputs = tuple(originals.get(name, name) for name in layer.inputs)
        copies = _copies(layer, layers, ranges[layer.inputs[0]])
        if copies and layer.output not in layers.outputs:
            originals[layer.output] = inputs[0]
        elif copies and kept and layers.sole_reader(kept[-1].output) is layer:
            # What the layer before it computes is the output, under another name.
            originals[inputs[0]] = layer.output
            kept[-1] = replace(kept[-1], output=layer.output)
        else:
            kept.append(layer if inputs == layer.inputs else replace(layer, inputs=inputs))
    if not originals:
        return layers, {}
    return layers.with_layers(kept), originals


def _copies(layer: Layer, layers: LayerGraph, x: Range) -> bool:
    if isinstance(layer, Reshape):
        images = layers.activations
        return images[layer.inputs[0]] == images[layer.output]
    if not isinstance(layer, Lut):
        return False
    values = np.arange(x.low.min(), x.high.max() + 1)
    return np.array_equal(layer.table[values - INT8[0]], values)
