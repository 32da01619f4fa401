"""Convolutions that compute neighboring outputs as channels: each sees a part of one window."""

from dataclasses import dataclass

import numpy as np

from tpulite.graph.layers import Conv, TransposedConv


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
    dilation = layer.dilation if isinstance(layer, Conv) else (1, 1)
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
        digits=layer.digits if isinstance(layer, Conv) else None,
    )


def _existing(taps: np.ndarray, kernel: int) -> np.ndarray:
    """Return taps, and -1 for those that a kernel has not."""
    return np.where((taps >= 0) & (taps < kernel), taps, -1)
