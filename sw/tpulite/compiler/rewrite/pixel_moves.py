"""Pixels that become channels, as taps of a kernel: space to depth before a convolution is free."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import CONV
from tpulite.compiler.rewrite.patches import alone_cycles
from tpulite.graph.layers import Activation, Concat, Conv, Layer, LayerGraph, Pick, is_int8_conv

_MOST = min(CONV.limit(name) for name in ("stride_y", "kernel_rows", "dilation_y"))
"""Largest stride, kernel and dilation of a command."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class _Moved:
    """An activation whose channels are those of pixels of another one, at fixed distances."""

    picks: tuple[Pick, ...]
    step: Pair  #: From a pixel to the next one of a pick, in rows and in columns.

    @property
    def source(self) -> str:
        """The other activation."""
        return self.picks[0].inputs[0]

    def starts(self, axis: int) -> list[int]:
        """Return the first row or column of each pick."""
        return [_axis(pick, axis)[0] for pick in self.picks]


def fold_pixel_moves(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with convolutions that read pixels where they are, not as channels.

    Strided slices of one activation, joined by channel or one alone, are what space to depth does,
    and the focus layer of detectors. A convolution behind them is one of the activation itself:
    each of its taps becomes a tap for each slice, and its stride grows. That is done where it takes
    no more cycles.
    """
    for name in [layer.output for layer in layers.layers]:
        moved = _moved(name, layers)
        readers = layers.readers.get(name, ())
        if moved is None or name in layers.outputs or not readers:
            continue
        image = layers.activations[moved.source]
        pairs = [_folded(reader, moved, layers) for reader in readers]
        folded = [pair for pair in pairs if pair is not None]
        if len(folded) == len(pairs) and _pays(moved, folded, layers, image, config):
            new = {conv.name: conv for _, conv in folded}
            chain = (new.get(layer.name, layer) for layer in layers.layers)
            layers = _without_moves(layers.with_layers(chain), name)
    return layers


def _moved(name: str, layers: LayerGraph) -> _Moved | None:
    """Return what an activation is, if its channels are pixels of one other activation."""
    maker = layers.makers.get(name)
    names = maker.inputs if isinstance(maker, Concat) and maker.axis == 2 else (name,)
    picks = [pick for pick in map(layers.makers.get, names) if isinstance(pick, Pick)]
    if len(picks) < len(names) or len({pick.inputs[0] for pick in picks}) > 1:
        return None
    if any(pick.transposed for pick in picks):
        return None
    steps = [{b - a for pick in picks for a, b in pairwise(_axis(pick, axis))} for axis in (0, 1)]
    if any(len(found) != 1 for found in steps):
        return None
    (rows,), (columns,) = steps
    if min(rows, columns) < 1 or rows == columns == 1:
        return None
    return _Moved(tuple(picks), (rows, columns))


def _axis(pick: Pick, axis: int) -> tuple[int, ...]:
    return (pick.rows, pick.columns)[axis]


@dataclass(frozen=True)
class _Taps:
    """How a convolution reads an axis of what was moved."""

    #: Ndarray of int, [picks, taps]. For each pick and tap of the kernel that of the new kernel.
    places: np.ndarray
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int


def _folded(reader: Layer, moved: _Moved, layers: LayerGraph) -> tuple[Conv, Conv] | None:
    """Return a convolution, and the one that reads the pixels where they are, if there is one."""
    if not is_int8_conv(reader):
        return None
    image, result = (layers.activations[name] for name in (moved.source, reader.output))
    taps = [_taps(reader, moved, axis, image, result) for axis in (0, 1)]
    y, x = taps
    if y is None or x is None:
        return None
    shape = y.kernel, x.kernel, image.shape[2], reader.weight.shape[3]
    weight = np.full(shape, reader.weight_zero_point, np.int8)
    taken = np.zeros(shape[:3], bool)
    first = 0
    for index, pick in enumerate(moved.picks):
        count = len(pick.channels)
        places = np.ix_(y.places[index], x.places[index], pick.channels)
        if taken[places].any() or len({*pick.channels}) < count:
            return None  # weights of one element would have to be added
        taken[places] = True
        weight[places] = reader.weight[:, :, first : first + count]
        first += count
    new = replace(
        reader,
        inputs=(moved.source,),
        weight=weight,
        stride=(y.stride, x.stride),
        dilation=(y.dilation, x.dilation),
        padding=(y.before, x.before, y.after, x.after),
    )
    return (reader, new) if new._infer(image) == result else None


def _taps(
    reader: Conv, moved: _Moved, axis: int, image: Activation, result: Activation
) -> _Taps | None:
    """Return the taps along an axis, if the new ones read padding where the old ones do."""
    step, starts = moved.step[axis], np.array(moved.starts(axis))
    kernel, stride = reader.weight.shape[axis], reader.stride[axis] * step
    before, extent = reader.padding[axis], image.shape[axis]
    positions = step * reader.dilation[axis] * np.arange(kernel) + starts[:, np.newaxis]
    outputs = result.shape[axis]
    last = (outputs - 1) * reader.stride[axis] + reader.dilation[axis] * (kernel - 1) - before
    count = len(_axis(moved.picks[0], axis))
    if before and starts.max() >= step:
        return None
    if last >= count and step * count + starts.min() < extent:
        return None
    pad = max(step * before - int(positions.min()), 0)
    places = positions - (step * before - pad)
    dilation = int(np.gcd.reduce(places, axis=None)) or 1
    size = int(places.max()) // dilation + 1
    if max(size, stride, dilation) > _MOST:
        return None
    after = max(0, (outputs - 1) * stride + int(places.max()) + 1 - extent - pad)
    return _Taps(places // dilation, size, stride, dilation, pad, after)


def _pays(
    moved: _Moved,
    folded: list[tuple[Conv, Conv]],
    layers: LayerGraph,
    image: Activation,
    config: Config,
) -> bool:
    """Return whether the new convolutions take no more cycles than moves and the old ones."""
    between = layers.activations[folded[0][0].inputs[0]]
    size, pixels = config.array_size, int(np.prod(between.shape[:2]))
    copied = sum(-(-image.shape[2] // size) for _ in moved.picks)
    whole = all(len(pick.channels) % size == 0 for pick in moved.picks[:-1])
    before = pixels * (copied if whole else 2 * copied)
    after, given = 0, moved.source in layers.inputs and len(folded) == 1
    for old, new in folded:
        result = layers.activations[old.output]
        before += alone_cycles(old, (between, result), config)
        after += alone_cycles(new, (image, result), config, packed=given)
    return after <= before


def _without_moves(layers: LayerGraph, name: str) -> LayerGraph:
    """Return the network without what made an activation that nobody reads any more."""
    for _ in range(2):  # a join, then its slices
        read = {*layers.outputs, *(x for layer in layers.layers for x in layer.inputs)}
        left = [
            layer
            for layer in layers.layers
            if layer.output in read or not isinstance(layer, Concat | Pick)
        ]
        layers = layers.with_layers(left)
    return layers
