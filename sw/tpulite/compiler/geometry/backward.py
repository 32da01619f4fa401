"""Which input rows a slice of output rows needs: BackwardH, and the same for columns."""

from collections.abc import Mapping
from typing import NamedTuple

from tpulite.compiler.geometry.axis import Axis1D
from tpulite.graph.layers import Activation, DepthToSpace, Elementwise, Layer, MatMul, Pad


class Reach(NamedTuple):
    """What outputs need along one axis of an input."""

    #: What counts as needed by one output; its stride is 0 if all outputs need the same.
    window: Axis1D
    target: int  #: Positions of the output.
    repeat: int = 1  #: Outputs, one after the other, that need the same.

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return where the part begins and ends that outputs from ``start`` to ``stop`` need.

        It is clipped to the input and has at least one position, even if only padding is read; for
        the last outputs it ends where the input ends.
        """
        window, repeat = self.window, self.repeat
        first, last = window.reads_of(start // repeat, (stop - 1) // repeat, window.size)
        return first, window.size if stop == self.target else last


def backward_extent(outputs: int, *, kernel: int, stride: int, dilation: int = 1) -> int:
    """Return how many input positions a slice of a convolution needs: BackwardH of TPU-MLIR.

    A stride that is larger than the window counts as its size, so that slices that lie side by side
    need inputs without a gap. For pooling that is not so.

    Raises
    ------
    ValueError
        If a number is less than 1.

    Examples
    --------
    >>> backward_extent(3, kernel=3, stride=1), backward_extent(2, kernel=1, stride=3)
    (5, 6)
    """
    given = {"outputs": outputs, "kernel": kernel, "stride": stride, "dilation": dilation}
    for name, value in given.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    return (outputs - 1) * stride + max((kernel - 1) * dilation + 1, stride)


def backward(layer: Layer, rows: range, index: int, images: Mapping[str, Activation]) -> range:
    """Return the rows of an input that some output rows of a layer need.

    Parameters
    ----------
    layer : Layer
        Any layer that is sliceable.
    rows : range
        Output rows, at least one.
    index : int
        Number of the input.
    images : mapping of str to Activation
        All images by name.

    Returns
    -------
    range
        At least one row; all rows of an operand that is the same for every position.

    Raises
    ------
    ValueError
        If rows of the output need no particular rows of the input.
    """
    return range(*reach_of(layer, index, images).span(rows.start, rows.stop))


def backward_columns(
    layer: Layer, columns: range, index: int, images: Mapping[str, Activation]
) -> range:
    """Return the columns of an input that some output columns need: see :func:`backward`."""
    reach = reach_of(layer, index, images, axis=1)
    return range(*reach.span(columns.start, columns.stop))


def reach_of(layer: Layer, index: int, images: Mapping[str, Activation], *, axis: int = 0) -> Reach:
    """Return what outputs of a layer need of an input; ``axis`` is 0 for rows, 1 for columns.

    Raises
    ------
    ValueError
        If that is not the same for all outputs.
    """
    extent = images[layer.inputs[index]].shape[axis]
    target = images[layer.output].shape[axis]
    stride, pad, size, repeat = 1, 0, 1, 1
    if (windows := layer.windows) is not None:
        size, stride, dilation, pad = (each[axis] for each in windows)
        if layer.weights is not None:
            size = backward_extent(1, kernel=size, stride=stride, dilation=dilation)
    match layer:
        case Pad():
            pad = layer.padding[axis]
        case DepthToSpace():
            repeat = layer.block[axis]
        case Elementwise() if images[layer.inputs[index]].shape != images[layer.output].shape:
            stride, size = 0, extent  # the same for every position
        case MatMul() if axis == 1 and index == 1:
            stride, size = 0, extent  # each row of a product needs all of the second matrix
        case _ if not layer.sliceable(axis):
            raise ValueError(f"{layer.title} cannot run slice by slice")
    return Reach(Axis1D(size, stride, before=pad, size=extent), target, repeat)
