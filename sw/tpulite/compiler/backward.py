"""Which input rows a slice of output rows needs: BackwardH, and the same for columns."""

from collections.abc import Mapping

from tpulite.graph.layers import (
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    Image,
    Layer,
    Pad,
    Pool,
    Reshape,
)

__all__ = ["backward", "backward_columns", "backward_extent", "sliceable"]


def backward_extent(
    outputs: range,
    *,
    kernel: int,
    stride: int,
    dilation: int = 1,
    pad: int,
    extent: int,
    last: bool,
    covering: bool = True,
) -> range:
    """Return the input positions that a slice of outputs needs: BackwardH of TPU-MLIR.

    There are ``(len(outputs) - 1) * stride + max((kernel - 1) * dilation + 1, stride)`` of them,
    from ``outputs.start * stride - pad`` on, clipped to the image; the last slice ends where the
    image ends. So slices that lie side by side need inputs without a gap. What is really read
    is always among them.

    Parameters
    ----------
    outputs : range
        Output positions, at least one.
    kernel, stride, dilation, pad : int
        Geometry of the sliding window along the axis; ``pad`` before the first position.
    extent : int
        Input positions.
    last : bool
        Whether these are the last outputs.
    covering : bool
        Whether a stride that is larger than the window counts as its size. Pooling: no.

    Returns
    -------
    range
        At least one position, even if only padding is read.

    Examples
    --------
    >>> backward_extent(range(3, 6), kernel=3, stride=1, pad=1, extent=6, last=True)
    range(2, 6)
    """
    reach = (kernel - 1) * dilation + 1
    if covering:
        reach = max(reach, stride)
    start = min(max(outputs.start * stride - pad, 0), extent - 1)
    stop = (outputs.stop - 1) * stride - pad + reach
    stop = extent if last else min(max(stop, start + 1), extent)
    return range(start, stop)


def backward(layer: Layer, rows: range, index: int, images: Mapping[str, Image]) -> range:
    """Return the rows of an input that some output rows of a layer need.

    Parameters
    ----------
    layer : Layer
        Any layer that is :func:`sliceable`.
    rows : range
        Output rows, at least one.
    index : int
        Number of the input.
    images : mapping of str to Image
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
    return _backward(layer, rows, index, images, axis=0)


def backward_columns(
    layer: Layer, columns: range, index: int, images: Mapping[str, Image]
) -> range:
    """Return the columns of an input that some output columns need: see :func:`backward`."""
    return _backward(layer, columns, index, images, axis=1)


def sliceable(layer: Layer, whole: frozenset[str] = frozenset(), *, axis: int = 0) -> bool:
    """Return whether a layer can run slice by slice.

    Parameters
    ----------
    layer : Layer
        Any layer.
    whole : frozenset of str
        Images that must not be cut.
    axis : int
        0 for slices of the height, 1 of the width.
    """
    if isinstance(layer, Reshape) or (isinstance(layer, Concat) and layer.axis == axis):
        return False
    return whole.isdisjoint((*layer.inputs, layer.output))


def _backward(
    layer: Layer, outputs: range, index: int, images: Mapping[str, Image], axis: int
) -> range:
    extent = images[layer.inputs[index]].shape[axis]
    target = images[layer.output].shape[axis]
    match layer:
        case Conv() | Depthwise():
            return backward_extent(
                outputs,
                kernel=layer.weight.shape[axis],
                stride=layer.stride[axis],
                dilation=layer.dilation[axis],
                pad=layer.padding[axis],
                extent=extent,
                last=outputs.stop == target,
            )
        case Pool():
            return backward_extent(
                outputs,
                kernel=layer.window[axis],
                stride=layer.stride[axis],
                pad=layer.padding[axis],
                extent=extent,
                last=outputs.stop == target,
                covering=False,
            )
        case Pad():
            start = min(max(outputs.start - layer.padding[axis], 0), extent - 1)
            return range(start, min(max(outputs.stop - layer.padding[axis], start + 1), extent))
        case Elementwise() if images[layer.inputs[index]].shape != images[layer.output].shape:
            return range(extent)  # the same for every position
    if not sliceable(layer, axis=axis):
        raise ValueError(f"{layer.title} cannot run slice by slice")
    return outputs
