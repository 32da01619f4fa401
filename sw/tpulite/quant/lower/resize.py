"""Bilinear interpolation whose weights are eighths, or the like: products and one rounding.

LiteRT's positions have ten fractional bits, or are floats. If an axis grows by a power of two, or
shrinks by any number, its weights are small integers over one denominator, so that all kernels
compute the same sums and differ in how they round. Outputs whose distance is the factor form a
phase, which is a depthwise convolution.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from tpulite.arch.numerics import INT8, Rounding
from tpulite.graph.data_movement import pixels_of_resize
from tpulite.graph.graph import Node
from tpulite.graph.layers import DepthToSpace, Depthwise, Pick, Requantization
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.movement import lower_movement
from tpulite.quant.tensors import UnsupportedError

_LARGEST_WEIGHT = 255


@dataclass(frozen=True)
class _Growth:
    """Interpolation of an axis."""

    #: Ndarray of int, [phases, taps]. What each phase is of consecutive inputs; all have one sum.
    weights: np.ndarray
    #: How often the first and the last input are repeated before the others and after them.
    repeated: tuple[int, int] = (0, 0)
    crop: int = 0  #: Outputs of the last inputs that are not there.


def lower_resize(node: Node, context: GraphContext) -> None:
    """Lower bilinear interpolation.

    Raises
    ------
    UnsupportedError
        If the kernels' positions are no small fractions.
    """
    before, after = (context.tensor(name).shape for name in (node.inputs[0], node.outputs[0]))
    if len(before) != 4 or len(after) != 4:
        raise UnsupportedError(f"its input has shape {list(before)}, not four axes")
    pairs = list(zip(before[1:3], after[1:3], strict=True))
    if pixels_of_resize(node, before[1:3], after[1:3]) is not None:
        lower_movement(node, context)
        return
    if context.exactness == Exactness.BM1684X:
        raise UnsupportedError("bm1684x numerics do not define resize_bilinear")
    if all(n % m == 0 for n, m in pairs) and node["half_pixel_centers"]:
        _shrink(node, context, [n // m for n, m in pairs])
        return
    _grow(node, context, [_growth(node, n, m) for n, m in pairs])


def _growth(node: Node, inputs: int, outputs: int) -> _Growth:
    """Return how an axis grows."""
    corners, centers = node["align_corners"] and inputs > 1, bool(node["half_pixel_centers"])
    step, rest = divmod(outputs - 1, inputs - 1) if corners else divmod(outputs, inputs)
    if rest or step < 1 or step & (step - 1):
        raise UnsupportedError("it enlarges by a factor that is not a power of two")
    if step == 1:
        return _Growth(np.ones((1, 1), np.int64))
    phases = np.arange(step)[:, np.newaxis]
    if centers:
        weights = 2 * step - np.abs(2 * phases + 1 - step - 2 * step * np.arange(-1, 2))
        return _Growth(np.maximum(weights, 0), (1, 1))
    weights = np.hstack([step - phases, phases])
    return _Growth(weights, (0, 1), step - 1 if corners else 0)


def _grow(node: Node, context: GraphContext, axes: list[_Growth]) -> None:
    """Emit a depthwise convolution for each phase, and what puts their pixels side by side."""
    target = node.outputs[0]
    source = context.requantized(node, node.inputs[0], target)
    y, x = axes
    height, width, channels = context.read(source).shape
    source = _with_edges(node, context, source, axes)
    phases = []
    for down, across in product(y.weights, x.weights):
        kernel = np.multiply.outer(down, across)
        kernel //= np.gcd.reduce(kernel, axis=None)
        if kernel.max() > _LARGEST_WEIGHT:
            raise UnsupportedError(
                f"its interpolation weights reach {kernel.max()}, more than 8 bits"
            )
        zero = -128 if kernel.max() > INT8[-1] else 0
        phase = f"{node.name}/{len(phases)}"
        context.declare(phase, (height, width, channels))
        weight = np.repeat(kernel[..., np.newaxis] + zero, channels, axis=2)
        context.emit(
            Depthwise,
            phase,
            (source,),
            phase,
            weight=weight.astype(np.int8),
            requantization=_rounded(node, context, kernel.sum(keepdims=True).reshape(1)),
            weight_zero_point=zero,
        )
        phases.append(phase)
    context.write(target)
    context.emit(
        DepthToSpace,
        node.name,
        tuple(phases),
        target,
        block=(len(y.weights), len(x.weights)),
        channels=channels,
        crop=(y.crop, x.crop),
    )


def _shrink(node: Node, context: GraphContext, steps: list[int]) -> None:
    """Emit the means of the pixels in the middle of rectangles: one or two of each axis."""
    target = node.outputs[0]
    source = context.requantized(node, node.inputs[0], target)
    channels = context.read(source).shape[2]
    y, x = ([2 * abs(2 * i - step + 1) <= 2 for i in range(step)] for step in steps)
    kernel = np.multiply.outer(y, x).astype(np.int8)
    context.write(target)
    context.emit(
        Depthwise,
        node.name,
        (source,),
        target,
        weight=np.repeat(kernel[..., np.newaxis], channels, axis=2),
        requantization=_rounded(node, context, kernel.sum(keepdims=True).reshape(1)),
        stride=(steps[0], steps[1]),
    )


def _with_edges(node: Node, context: GraphContext, source: str, axes: list[_Growth]) -> str:
    """Return the image with its edges repeated, as all kernels do."""
    *sides, depth = context.activations[source].shape
    if not any(any(axis.repeated) for axis in axes):
        return source
    rows, columns = (
        (*[0] * axis.repeated[0], *range(side), *[side - 1] * axis.repeated[1])
        for side, axis in zip(sides, axes, strict=True)
    )
    wide = f"{node.name}/edges"
    context.declare(wide, (len(rows), len(columns), depth))
    fields = {"rows": rows, "columns": columns, "channels": tuple(range(depth))}
    context.emit(Pick, wide, (source,), wide, **fields)
    return wide


def _rounded(node: Node, context: GraphContext, sums: np.ndarray) -> Requantization:
    """Return the division by sums of weights of integers themselves, whatever they mean.

    XNNPACK rounds ties up, the others away from zero; that is up, too, if there are no signs.
    """
    unsigned = context.quantized(node.inputs[0]).unsigned
    if unsigned and context.exactness == Exactness.TFLM:
        raise UnsupportedError("tflm has no uint8 resize_bilinear")
    up = unsigned or context.exactness == Exactness.LITERT_XNNPACK
    return make_requantization(1 / sums, Rounding.SINGLE if up else Rounding.AWAY)
