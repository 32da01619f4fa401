"""Means, sums, maxima and minima over any axes of an image.

Over height and width they are windows. Sums over channels are convolutions with ones; maxima of
channels are those of two halves, again and again, which convolutions with one weight of 1 for each
channel pick. Such a convolution also moves pixels into channels where a result wants it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite.arch.numerics import INT8
from tpulite.graph.graph import Node
from tpulite.graph.layers import Conv, Elementwise, Lut, Pool, Requantization
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.sums import Mean, mean_requantization, sum_requantization
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.selections import integers, sum_of_integers
from tpulite.quant.tensors import UnsupportedError

_MOST_WEIGHTS = 1 << 20
"""Weights that picking pixels or channels is worth."""

_MIRRORED = np.arange(INT8[-1], INT8[0] - 1, -1).astype(np.int8)
"""Table of -1 - x: it turns the order of integers around."""

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class _Reduction:
    """What a node reduces."""

    #: Images.
    source: str
    target: str
    #: Their shapes; ``wanted`` is that of the tensor.
    image: Shape
    wanted: Shape
    window: tuple[int, int]  #: Height and width that become one.
    channels: bool  #: Whether all channels become one.

    @property
    def found(self) -> Shape:
        """Shape of what windows and sums of channels leave."""
        (height, width, channels), (rows, columns) = self.image, self.window
        return height // rows, width // columns, 1 if self.channels else channels

    @property
    def planar(self) -> bool:
        """Whether all of height and width is reduced, and nothing else."""
        return not self.channels and self.found[:2] == (1, 1)


def lower_mean(node: Node, context: GraphContext) -> None:
    """Lower a mean."""
    if context.exactness.ort and "Reduce" in node.source:
        raise UnsupportedError("ONNX Runtime rounds every term of ReduceMean")
    reduction = _reduction(node, context)
    if context.exactness.ort and not reduction.planar:
        raise UnsupportedError("ort numerics are verified for height and width only")
    mean = _sum(node, context, reduction)
    _emit_sum(node, context, reduction, mean_requantization(mean, context.exactness))


def lower_sum(node: Node, context: GraphContext) -> None:
    """Lower a sum."""
    reduction = _reduction(node, context)
    total = _sum(node, context, reduction)
    _emit_sum(node, context, reduction, sum_requantization(total, context.exactness))


def lower_extreme_of_axes(node: Node, context: GraphContext) -> None:
    """Lower a maximum or minimum over axes; a requantization does not change which it is."""
    if context.exactness == Exactness.BM1684X:
        raise UnsupportedError(f"bm1684x numerics do not define {node.op}")
    reduction = _reduction(node, context)
    image = reduction.source
    if context.exactness.ort:
        image = context.requantized(node, image, reduction.target)
    elif context.quantized(image) != context.quantized(reduction.target):
        raise UnsupportedError(f"{context.exactness} does not requantize in {node.op}")
    least = node.op == "reduce_min"
    steps = _Steps(context, image)
    if reduction.window != (1, 1):
        shape = (*reduction.found[:2], reduction.image[2])
        window = {"window": reduction.window, "stride": reduction.window}
        if least:
            steps.add(Lut, reduction.image, table=_MIRRORED)
        steps.add(Pool, shape, op="max", **window)
        if least:
            steps.add(Lut, shape, table=_MIRRORED)
    if reduction.channels:
        _reduce_channels(steps, (*reduction.found[:2], reduction.image[2]), least=least)
        if reduction.wanted[2] != 1:
            weight, shape = _picking(reduction.found, (1, 1), reduction.wanted[2])
            steps.add(Conv, shape, weight=weight, stride=weight.shape[:2], **integers(context))
    steps.finish(node, reduction)


def _reduction(node: Node, context: GraphContext) -> _Reduction:
    source, target = node.inputs[0], node.outputs[0]
    shape = context.tensor(source).shape
    image = context.read(source).shape
    wanted = context.write(target).shape
    reduced = [axis for axis in node["axes"] if shape[axis] > 1]
    last = [axis for axis in reduced if axis == len(shape) - 1]
    columns = [axis for axis in reduced if axis == len(shape) - 2 and image[1] > 1]
    rows = [axis for axis in reduced if axis not in (*last, *columns)]
    window = (math.prod(shape[axis] for axis in rows), image[1] if columns else 1)
    behind = shape[min(rows, default=0) : len(shape) - 1 - (image[1] > 1 or len(shape) > 2)]
    if rows and window[0] != math.prod(behind) and window[0] != image[0]:
        raise UnsupportedError(f"axes {list(node['axes'])} of {list(shape)} are not adjacent")
    moved = image[2] == 1 and wanted[2] != 1  # pixels become channels
    return _Reduction(source, target, image, wanted, window, moved or bool(last))


def _sum(node: Node, context: GraphContext, reduction: _Reduction) -> Mean:
    x, y = context.quantized(reduction.source), context.quantized(reduction.target)
    if x.unsigned != y.unsigned:
        raise UnsupportedError("its tensors are int8 and uint8")
    rows, columns = reduction.window
    channels = reduction.image[2]
    planar = len(context.tensor(reduction.source).shape) == 4 and set(node["axes"]) == {1, 2}
    return Mean(
        x=x,
        y=y,
        count=rows * columns * (channels if reduction.channels else 1),
        channels=channels,
        planar=planar and node["keep_dims"],
    )


def _emit_sum(
    node: Node, context: GraphContext, reduction: _Reduction, record: Requantization
) -> None:
    steps = _Steps(context, reduction.source)
    if reduction.channels:
        weight, shape = _picking(reduction.image, reduction.window, reduction.wanted[2])
        fields = {"weight": weight, "stride": weight.shape[:2]}
        steps.add(Conv, shape, requantization=record, **fields)
    else:
        window = {"window": reduction.window, "stride": reduction.window}
        steps.add(Pool, reduction.found, op="sum", requantization=record, **window)
    steps.finish(node, reduction)


def _picking(image: Shape, window: tuple[int, int], outputs: int) -> tuple[np.ndarray, Shape]:
    """Return ones that add up all channels of windows, and the shape of the result.

    Results of a window each are pixels of one channel; those of a row, or all, are channels of a
    pixel if there have to be as many.

    Raises
    ------
    UnsupportedError
        If they would be too many weights.
    """
    height, width, channels = image
    rows, columns = height // window[0], width // window[1]
    region = (1, 1) if outputs == 1 else (outputs // columns, columns)
    kernel = (region[0] * window[0], region[1] * window[1])
    if kernel[0] * kernel[1] * channels * outputs > _MOST_WEIGHTS:
        raise UnsupportedError(
            f"moving {rows * columns} pixels into channels takes too many weights"
        )
    weight = np.zeros((region[0], window[0], region[1], window[1], channels, *region), np.int8)
    for row in range(region[0]):
        for column in range(region[1]):
            weight[row, :, column, :, :, row, column] = 1
    shape = (rows // region[0], columns // region[1], outputs)
    return weight.reshape(*kernel, channels, outputs), shape


def _reduce_channels(steps: "_Steps", shape: Shape, *, least: bool) -> None:
    """Leave the largest or smallest channel of each pixel: of two halves, again and again."""
    zero = INT8[-1] if least else INT8[0]
    rows, columns, channels = shape
    while channels > 1:
        half = -(-channels // 2)
        low = np.eye(channels, half, dtype=np.int8)
        high = np.eye(channels, half, half - channels, dtype=np.int8)
        source, fields = steps.last, integers(steps.context)
        steps.add(Conv, (rows, columns, half), weight=high[np.newaxis, np.newaxis], **fields)
        other, fields = steps.last, integers(steps.context, zero)
        difference = (low - high)[np.newaxis, np.newaxis]
        steps.add(Conv, (rows, columns, half), (source,), weight=difference, **fields)
        fields = sum_of_integers(steps.context, (zero, 0))
        steps.add(Elementwise, (rows, columns, half), (steps.last, other), **fields)
        channels = half


class _Steps:
    """Layers of a node, one after the other, before they are emitted.

    Parameters
    ----------
    source : str
        Image that the first layer reads.
    """

    def __init__(self, context: GraphContext, source: str) -> None:
        self.context, self.last = context, source
        self._steps: list[tuple[Any, tuple[str, ...], str, Shape, dict[str, Any]]] = []

    def add(self, make: Any, shape: Shape, inputs: tuple[str, ...] = (), /, **fields: Any) -> None:
        """Add a layer that reads the last image if it is not said otherwise."""
        inputs = inputs or (self.last,)
        self.last = f"step {len(self._steps)}"
        self._steps.append((make, inputs, self.last, shape, fields))

    def finish(self, node: Node, reduction: _Reduction) -> None:
        """Emit the layers; the last image becomes that of the tensor."""
        target, context = reduction.target, self.context
        kept = reduction.wanted == (self._steps[-1][3] if self._steps else reduction.image)
        if not self._steps:
            context.reshape(node.name, self.last, target)
            return
        names = {output: f"{node.name}/{output}" for _, _, output, _, _ in self._steps}
        names[self.last] = target if kept else f"{target}/kept"
        for make, inputs, output, shape, fields in self._steps:
            image = names[output]
            if image != target:
                context.declare(image, shape)
            name = node.name if output == self.last else image
            sources = tuple(names.get(source, source) for source in inputs)
            context.emit(make, name, sources, image, **fields)
        if not kept:
            context.reshape(f"{node.name}/reshape", names[self.last], target)
