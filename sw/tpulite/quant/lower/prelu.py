"""PRELU with slopes by channel or by element."""

from dataclasses import replace

import numpy as np

from tpulite.arch.numerics import Rounding
from tpulite.frontend.onnx.weights import real_values
from tpulite.graph.graph import Node
from tpulite.graph.layers import Affine, Depthwise, Elementwise, Lut
from tpulite.quant.exactness.functions import function_table
from tpulite.quant.exactness.litert import leaky
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.quant.exactness.selections import prelu_scales
from tpulite.quant.lower.affine import affine_records
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.selections import add_integers, pair_operands, uniform
from tpulite.quant.tensors import INT8_BOUNDS, UnsupportedError

_LOW, _HIGH = INT8_BOUNDS

_LARGE = 1 << 7
"""Scales of products by which one with a slope may wrap, so that its sign says nothing."""


def lower_prelu(node: Node, context: GraphContext) -> None:
    """Lower PRELU: a table if there is one slope, else positive numbers and products are added.

    Either is zero where the other is not, so their sum has 8 bits.
    """
    if context.exactness.ort:
        _lower_real(node, context)
    elif context.exactness.litert:
        _lower_integers(node, context)
    else:
        raise UnsupportedError(f"{context.exactness} numerics do not define prelu")


def _lower_integers(node: Node, context: GraphContext) -> None:
    """Lower LiteRT's: slopes are integers."""
    target = node.outputs[0]
    (source, slopes), _ = pair_operands(node, context, commutes=False)
    x, alpha, y = (context.quantized(name) for name in (*node.inputs[:2], target))
    if len({x.unsigned, alpha.unsigned, y.unsigned}) > 1:
        raise UnsupportedError("its tensors are int8 and uint8")
    scales = prelu_scales(x, alpha, y)
    slope = uniform(context, slopes)
    if slope is not None:
        table = y.image(leaky(x, y, *scales, slope - alpha.zero))
        context.emit(Lut, node.name, (source,), target, table=table)
        return
    known = context.constants.get(slopes)
    signs = None if known is None else known.astype(int) - alpha.zero
    table = y.image(leaky(x, y, *scales, 0))
    if known is not None and known.shape[:2] == (1, 1) and scales[1] < _LARGE:
        positive = _positive(node, context, source, table)  # first: the vector path has more to do
        products = _by_channel(node, context, source, known, scales[1])
        _add(node, context, (products, positive))
        return
    factors, bounds = _factors(node, context, source, signs)
    products = context.declare_like(source, f"{node.name}/products")
    context.emit(
        Elementwise,
        products,
        (factors, slopes),
        products,
        op="mul",
        requantization=make_requantization(scales[1], Rounding.TFLITE, y.zero, bounds),
        zero_points=(x.zero, alpha.zero),
    )
    _add(node, context, (products, _positive(node, context, source, table)))


def _by_channel(
    node: Node,
    context: GraphContext,
    source: str,
    slopes: np.ndarray,
    scale: float,
) -> str:
    """Multiply channels by slopes on the array; clamps of each make the others zero."""
    x, alpha, y = (context.quantized(name) for name in (*node.inputs[:2], node.outputs[0]))
    falling = slopes.reshape(-1) < alpha.zero
    low, high = np.where(falling, y.zero, _LOW), np.where(falling, _HIGH, y.zero)
    name = context.declare_like(source, f"{node.name}/products")
    record = make_requantization(scale, Rounding.TFLITE, y.zero, INT8_BOUNDS)
    context.emit(
        Depthwise,
        name,
        (source,),
        name,
        weight=np.ascontiguousarray(slopes),
        requantization=replace(record, low=low, high=high),
        input_zero_point=x.zero,
        weight_zero_point=alpha.zero,
    )
    return name


def _lower_real(node: Node, context: GraphContext) -> None:
    """Lower ONNX Runtime's: slopes are float32, one for each channel."""
    source, target = node.inputs[0], node.outputs[0]
    channels = context.read(source).shape[2]
    context.write(target)
    x, y = context.quantized(source), context.quantized(target)
    tensor = context.tensor(node.inputs[1])
    if tensor.data is None or tensor.shape[-1:] != (channels,) or tensor.data.size != channels:
        raise UnsupportedError("its slopes are not constants, one per channel")
    if tensor.dtype != "float32" and tensor.quantization is None:
        raise UnsupportedError(f"its slopes are {tensor.dtype}")
    real = tensor.data if tensor.quantization is None else real_values(tensor)
    slopes = real.astype(np.float32).reshape(-1)
    some = np.where(slopes == 0, np.float32(1), slopes)
    real = np.minimum(x.integers() - x.zero_point, 0).astype(np.float32) * x.scale
    negative = np.rint(real[:, np.newaxis] * some / y.scale).astype(np.int64) + y.zero_point
    wanted = y.image(negative)[: x.zero - _LOW + 1]
    gain, record = affine_records(x, y, some, np.zeros_like(some), wanted)
    factors, (low, high) = _factors(node, context, source, slopes)
    bias = np.where(slopes == 0, 0, record.bias).astype(np.int32)
    record = replace(record, bias=bias, low=low, high=high)
    products = context.declare_like(source, f"{node.name}/products")
    gain = np.where(slopes == 0, 0, gain).astype(np.int16)
    context.emit(Affine, products, (factors,), products, gain=gain, requantization=record)
    table = function_table("requantize", x, y, {}, context.exactness, 0)
    positive = np.where(x.integers() >= x.zero_point, table, y.zero).astype(np.int8)
    _add(node, context, (products, _positive(node, context, source, positive)))


def _factors(
    node: Node, context: GraphContext, source: str, slopes: np.ndarray | None
) -> tuple[str, tuple[int, int]]:
    """Return the image that slopes multiply, and bounds that make products of others zero."""
    x, y = (context.quantized(name) for name in (node.inputs[0], node.outputs[0]))
    if slopes is not None and np.all(slopes >= 0):
        return source, (_LOW, y.zero)
    if slopes is not None and np.all(slopes <= 0):
        return source, (y.zero, _HIGH)
    table = np.minimum(np.arange(_LOW, _HIGH + 1), x.zero).astype(np.int8)
    return context.map(source, f"{node.name}/negative", table), INT8_BOUNDS


def _positive(node: Node, context: GraphContext, source: str, table: np.ndarray) -> str:
    """Return what becomes of positive numbers, by a table that is zero elsewhere."""
    return context.map(source, f"{node.name}/positive", table)


def _add(node: Node, context: GraphContext, terms: tuple[str, str]) -> None:
    """Add two terms, at least one of which is zero."""
    zero = context.quantized(node.outputs[0]).zero
    add_integers(context, node.name, terms, node.outputs[0], (zero, zero), zero=zero)
