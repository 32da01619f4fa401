"""Neighboring outputs of a convolution beside each other in a vector, so that no column is idle."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.geometry.extents import sole_reader
from tpulite.compiler.rewrite.patches import alone_cycles
from tpulite.graph.layers import Activation, Conv, Layer, LayerGraph, TransposedConv


def join_neighbors(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with vectors that hold several pixels of few channels.

    Where a convolution computes at most half as many channels as the array has columns, and only
    one other convolution reads them, in steps of several pixels or all of them once, the first one
    can compute some pixels of a row or column at once. It gets a larger kernel, and the other one
    fewer taps. That is done where both together take fewer cycles.
    """
    for index in range(len(layers.layers)):
        layers = _joined_with_reader(layers, index, config)
    return layers


def _joined_with_reader(layers: LayerGraph, index: int, config: Config) -> LayerGraph:
    """Return the network with one layer, as it is by now, and its reader joined if that pays."""
    found = _with_reader(layers, layers.layers[index], config)
    if found is None:
        return layers
    first, second = found
    names = first.inputs[0], first.output, second.output
    images = tuple(layers.activations[name] for name in names)
    given = sole_reader(layers, names[0]) is first
    best, least = None, _cycles((first, second), images, config, given=given)
    for pair, middle in _joined(first, second, images, config):
        cycles = _cycles(pair, (images[0], middle, images[2]), config, given=given)
        if cycles < least:
            best, least = (pair, middle), cycles
    if best is None:
        return layers
    (one, other), middle = best
    changed = {first.name: one, second.name: other}
    return replace(
        layers,
        layers=tuple(changed.get(layer.name, layer) for layer in layers.layers),
        activations={**layers.activations, first.output: middle},
    )


def _with_reader(layers: LayerGraph, first: Layer, config: Config) -> tuple[Conv, Conv] | None:
    """Return a convolution of few channels and the one that alone reads them, if a layer is one."""
    reader = layers.sole_reader(first.output)
    if not (isinstance(first, Conv) and isinstance(reader, Conv)) or first.requantization is None:
        return None
    return (first, reader) if 2 * first.weight.shape[3] <= config.array_size else None


def _joined(
    first: Conv, second: Conv, images: tuple[Activation, ...], config: Config
) -> Iterator[tuple[tuple[Conv, Conv], Activation]]:
    """Yield pairs of layers that compute the same, and the image between them."""
    most = config.array_size // first.weight.shape[3]
    for axis in (0, 1):
        stride, outputs = second.stride[axis], images[2].shape[axis]
        if first.dilation[axis] > 1 or second.dilation[axis] > 1 or second.padding[axis]:
            continue
        extent = images[1].shape[axis]
        padded = (outputs - 1) * stride + second.weight.shape[axis] > extent
        for count in range(2, min(most, extent) + 1):
            if padded and extent % count:  # pixels that do not exist would be read, not padding
                continue
            if outputs == 1 or stride % count == 0:
                shape = list(images[1].shape)
                shape[axis] = -(-shape[axis] // count)
                shape[2] *= count
                counts = (count, 1) if axis == 0 else (1, count)
                extents = zip(counts, images[0].shape, images[1].shape, strict=False)
                y, x = (conv_window(first, i, *each) for i, each in enumerate(extents))
                one = joined_outputs(first, (y, x))
                other = _fewer_taps(second, count, axis, shape[axis], outputs)
                image = Activation((shape[0], shape[1], shape[2]))
                if other._infer(image) == images[2]:  # or it would compute some more
                    yield (one, other), image


def _fewer_taps(layer: Conv, count: int, axis: int, extent: int, outputs: int) -> Conv:
    """Return the layer that reads ``count`` neighbors along an axis as channels."""
    weight = np.moveaxis(layer.weight, axis, 0)
    kernel, other, depth, channels = weight.shape
    taps = -(-kernel // count)
    missing = ((0, taps * count - kernel), (0, 0), (0, 0), (0, 0))
    weight = np.pad(weight, missing, constant_values=layer.weight_zero_point)
    weight = weight.reshape(taps, count, other, depth, channels).transpose(0, 2, 1, 3, 4)
    weight = np.moveaxis(weight.reshape(taps, other, count * depth, channels), 0, axis)
    stride = 1 if outputs == 1 else layer.stride[axis] // count
    padding = list(layer.padding)
    padding[axis + 2] = max(0, (outputs - 1) * stride + taps - extent)
    return replace(
        layer,
        weight=np.ascontiguousarray(weight),
        stride=_with(layer.stride, axis, stride),
        padding=tuple(padding),
    )


def _with(pair: tuple[int, int], axis: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if axis == 0 else (pair[0], value)


def _cycles(
    pair: tuple[Conv, Conv], images: tuple[Activation, ...], config: Config, *, given: bool
) -> int:
    """Return the cycles of two layers; ``given``: the first one reads what the host packs."""
    first = alone_cycles(pair[0], (images[0], images[1]), config, packed=given)
    return first + alone_cycles(pair[1], (images[1], images[2]), config)


@dataclass(frozen=True)
class Window:
    """How a convolution reads an axis to compute several outputs at once."""

    #: Ndarray of int, [outputs, positions]. For each output and position of the window the tap of
    #: the layer's kernel; -1 for none.
    taps: np.ndarray
    #: Stride and padding of windows.
    stride: int
    before: int
    after: int


def conv_window(layer: Conv, axis: int, count: int, extent: int, outputs: int) -> Window:
    """Return the windows of ``count`` neighbors of a convolution.

    Parameters
    ----------
    layer : Conv
        The convolution, not dilated along the axis unless ``count`` is 1.
    axis : int
        0 for rows, 1 for columns.
    count : int
        Outputs of a window. The last window may have some that do not exist.
    extent, outputs : int
        Positions of the input, and outputs of the layer.
    """
    kernel, stride = layer.weight.shape[axis], layer.stride[axis]
    before, after = layer.padding[axis], layer.padding[axis + 2]
    if count > 1:
        reach = (-(-outputs // count) * count - 1) * stride + kernel
        after = max(0, reach - extent - before)
    taps = np.arange(kernel + (count - 1) * stride) - stride * np.arange(count)[:, None]
    return Window(_existing(taps, kernel), stride * count, before, after)


def transposed_window(layer: TransposedConv, axis: int, count: int, extent: int) -> Window:
    """Return the windows of ``count`` neighbors, a multiple of the stride, of a transposed one.

    Output p of a window is reached by its input i if the tap ``p + padding - i * stride`` exists.
    """
    kernel, stride, lost = layer.weight.shape[axis], layer.stride[axis], layer.padding[axis]
    step, windows = count // stride, -(-layer.size[axis] // count)
    first = min(-((kernel - 1 - lost) // stride), 0)
    # All of the input is read, as convolutions do.
    last = max((count - 1 + lost) // stride, extent - windows * step)
    taps = np.arange(count)[:, None] + lost - stride * np.arange(first, last + 1)
    after = max(0, (windows - 1) * step + last + 1 - extent)
    return Window(_existing(taps, kernel), step, -first, after)


def joined_outputs(layer: Conv | TransposedConv, windows: tuple[Window, Window]) -> Conv:
    """Return the convolution whose channels are those of all outputs of a window, row by row."""
    y, x = windows
    missing = ((0, 1), (0, 1), (0, 0), (0, 0))
    padded = np.pad(layer.weight, missing, constant_values=layer.weight_zero_point)
    weight = padded[y.taps[:, :, None, None], x.taps]  # [row, tap, column, tap, channel, output]
    weight = weight.transpose(1, 3, 4, 0, 2, 5)
    records = layer.requantization
    if records is not None:
        channels = np.arange(layer.weight.shape[3])
        records = records.of(np.tile(channels, len(y.taps) * len(x.taps)))
    dilation = layer.dilation
    columns = 1 + layer.int16  # of a vector
    if layer.int16 and x.taps.shape[1] > 1:
        dilation = dilation[0], columns
    return Conv(
        name=layer.name,
        inputs=layer.inputs,
        output=layer.output,
        weight=np.ascontiguousarray(weight).reshape(*weight.shape[:3], -1),
        requantization=records,
        input_zero_point=layer.input_zero_point,
        weight_zero_point=layer.weight_zero_point,
        stride=(y.stride, x.stride),
        dilation=dilation,
        padding=(y.before, columns * x.before, y.after, columns * x.after),
        int16=layer.int16,
        digits=layer.digits,
    )


def _existing(taps: np.ndarray, kernel: int) -> np.ndarray:
    """Return taps, and -1 for those that a kernel has not."""
    return np.where((taps >= 0) & (taps < kernel), taps, -1)
