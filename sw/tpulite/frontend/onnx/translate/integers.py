"""Products of integers without scales, whose results are sums."""

from dataclasses import dataclass

import numpy as np

from tpulite.frontend.onnx.read.model import OnnxNode
from tpulite.frontend.onnx.translate.importer import Importer, Rule, UncoveredError
from tpulite.frontend.onnx.translate.products import dense_product
from tpulite.frontend.onnx.translate.windows import (
    SlidingWindow,
    conv_attributes,
    window_of,
)
from tpulite.graph.graph import Quantization

_COMPUTED = "its weights are computed at run time"
_ZERO_POINTS = "its zero points are per row, or computed at run time"

_NEUTRAL = {"int8": 0, "uint8": 128}
"""Zero points of activations that the machine need not know: its sums are those of int8."""


@dataclass(frozen=True, eq=False)
class _Operands:
    """Operands that have zero points.

    ``shift`` is what is to be added to every activation before the product. The machine's sums
    leave it out; what it adds to them is a constant.
    """

    x: str
    weight: str
    values: np.ndarray
    point: np.ndarray
    shift: int

    @property
    def centered(self) -> np.ndarray:
        """The weights without their zero points, int64."""
        return self.values.astype(np.int64) - self.point


def _operands(graph: Importer, node: OnnxNode, *, axis: int) -> _Operands:
    """Give both operands a scale of one and their zero points.

    Weights may have a zero point for each output channel, which are along ``axis``.
    """
    x, weight, *names = node.inputs
    values = graph.constant(weight)
    if values is None:
        raise UncoveredError(_COMPUTED)
    points = [graph.constant(name) if name else np.zeros(1, np.int64) for name in names]
    points += [np.zeros(1, np.int64)] * (2 - len(points))
    x_point, w_point = points
    if x_point is None or w_point is None or x_point.size != 1 or w_point.ndim > 1:
        raise UncoveredError(_ZERO_POINTS)
    if w_point.size > 1 and (values.shape[axis] != w_point.size or values.ndim == 3):
        raise UncoveredError(_ZERO_POINTS)
    shift = 0
    x_point = x_point.reshape(1).astype(np.int64)
    known = graph.quantization(x)
    if known is None:
        neutral = _NEUTRAL.get(graph.dtype(x))
        if neutral is None:
            raise UncoveredError(f"its activation is {graph.dtype(x)}")
        shift = neutral - int(x_point[0])
        known = Quantization(np.ones(1, np.float32), np.array([neutral]))
    elif not np.array_equal(known.zero_point, x_point):
        raise UncoveredError("its activation has two zero points")
    channels = w_point.size > 1
    w_point = w_point.reshape(-1).astype(np.int64)
    meaning = Quantization(np.ones(w_point.shape, np.float32), w_point, axis if channels else None)
    shape = [1] * values.ndim
    shape[axis if channels else 0] = -1
    return _Operands(
        graph.quantize_tensor(x, known),
        graph.quantize_tensor(weight, meaning),
        values,
        w_point.reshape(shape),
        shift,
    )


def _matmul(graph: Importer, node: OnnxNode) -> None:
    operands = _operands(graph, node, axis=1)
    y = node.outputs[0]
    sums = _sums(graph, node, operands)
    dense_product(graph, operands.x, operands.weight, sums, raw=True)
    if sums != y:
        rest = operands.centered.sum(axis=-2, keepdims=operands.values.ndim > 2)
        _add(graph, sums, operands.shift * rest, y)


def _conv(graph: Importer, node: OnnxNode) -> None:
    image, kernel = (graph.known_shape(name) for name in node.inputs[:2])
    window = window_of(node, image, kernel[2:])
    operands = _operands(graph, node, axis=0)
    y = node.outputs[0]
    sums = _sums(graph, node, operands)
    attributes = conv_attributes(graph, node, window)
    graph.emit("conv", [operands.x, operands.weight], [sums], raw=True, **attributes)
    if sums != y:
        _add(graph, sums, operands.shift * _sums_of_ones(operands.centered, image, window), y)


def _sums(graph: Importer, node: OnnxNode, operands: _Operands) -> str:
    """Return the name of the machine's sums: the output, if there is nothing to add to them."""
    y = node.outputs[0]
    shape = graph.shape(y)
    if not operands.shift or shape is None:
        return y
    return graph.temporary("sums", shape, "int32")


def _add(graph: Importer, sums: str, rest: np.ndarray, y: str) -> None:
    constant = graph.add_constant("rest", rest.astype(np.int32))
    graph.emit("add", [sums, constant], [y], activation="none")


def _sums_of_ones(weight: np.ndarray, image: tuple[int, ...], window: SlidingWindow) -> np.ndarray:
    """Return the convolution of an image of ones [1, O, oh, ow]; padding adds nothing.

    One row and column for all if there is no padding.
    """
    taps = weight.sum(axis=1).reshape(len(weight), *window.kernel)
    if not any(window.padding):
        return taps.sum(axis=(1, 2)).reshape(1, -1, *(1,) * (len(image) - 2))
    height, width = (1, *image[2:])[-2:]
    top, left, bottom, right = window.padding
    inside = []
    for axis, (size, before, after) in enumerate(((height, top, bottom), (width, left, right))):
        stride, dilation = window.stride[axis], window.dilation[axis]
        offsets = np.arange(window.kernel[axis]) * dilation
        count = (size + before + after - offsets[-1] - 1) // stride + 1
        places = np.arange(count)[:, None] * stride - before + offsets
        inside.append(((places >= 0) & (places < size)).astype(np.int64))
    sums = np.einsum("oyx,hy,wx->ohw", taps, *inside)
    return sums.reshape(1, len(weight), *sums.shape[-(len(image) - 2) :])


INTEGER_RULES: dict[str, Rule] = {"ConvInteger": _conv, "MatMulInteger": _matmul}
