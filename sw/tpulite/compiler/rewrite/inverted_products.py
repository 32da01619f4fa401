"""Products whose first operand has the zero point -128: of the inverse of each byte.

Offsets are sums of the second operand times 128, which is no int8, so that half of it loads all
weight tiles again. The inverse of a byte b is -1 - b: inverted, an operand of zero point -128 has
127, and a product is the negative one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import VectorOp
from tpulite.arch.numerics import INT8, INT32, Rounding, requantize
from tpulite.arch.timing import turnaround, vector_cycles
from tpulite.compiler.plan.layer_cost import matmul_cycles
from tpulite.compiler.rewrite.maxima import replace_by_chains
from tpulite.graph.layers import Activation, Layer, LayerGraph, Lut, MatMul, Requantization

_INVERSES = ~np.arange(INT8[0], INT8[-1] + 1, dtype=np.int8)

_TIES = 256
"""Sums that are ties of which so many are tried."""

_LESS = 0.5
"""Part of the cycles that are saved which the vector path may take."""


def invert_operands(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with inverted operands of products, where that takes fewer cycles.

    Two tables invert the operand, and the product. The first operand must have few rows.
    """

    def chain_of(layer: Layer, images: Mapping[str, Activation]) -> Sequence[Layer]:
        if not isinstance(layer, MatMul) or layer.zero_points[0] != INT8[0]:
            return [layer]
        first, result = images[layer.inputs[0]].shape, images[layer.output].shape
        reach = max(abs(end - layer.zero_points[1]) for end in (INT8[0], INT8[-1]))
        negative = _negative(layer.requantization, first[2] * (INT8[-1] - INT8[0]) * reach)
        if negative is None or not _saves(first, result, layer, config):
            return [layer]
        operand, product = f"{layer.output}/inverted operand", f"{layer.output}/inverted"
        inverted = replace(
            layer,
            inputs=(operand, layer.inputs[1]),
            output=product,
            requantization=negative,
            zero_points=(~layer.zero_points[0], layer.zero_points[1]),
        )
        return [
            Lut(name=operand, inputs=layer.inputs[:1], output=operand, table=_INVERSES),
            inverted,
            Lut(name=product, inputs=(product,), output=layer.output, table=_INVERSES),
        ]

    return replace_by_chains(layers, chain_of)


def _negative(record: Requantization, largest: int) -> Requantization | None:
    """Return what makes the inverse of each result from the negative sum, up to a largest sum.

    Roundings must go the same way on both sides of zero. The doubling multiplication of TFLITE
    rounds ties up: sums that are ties, odd multiples of one number, are tried.
    """
    negative = replace(record, zero_point=~record.zero_point, low=~record.high, high=~record.low)
    if record.roundings <= {Rounding.FLOAT32, Rounding.AWAY}:
        return negative
    multiplier, left = int(record.multiplier[0]), max(int(record.shift[0]), 0)
    if record.roundings != {Rounding.TFLITE} or largest << left not in INT32:
        return None
    first = (1 << 30) // math.gcd(multiplier << left, 1 << 30)
    ties = range(first, largest + 1, 2 * first)
    if len(ties) > _TIES:
        return None
    same = all(_scaled(tie, record) == ~_scaled(-tie, negative) for x in ties for tie in (x, -x))
    return negative if same else None


def _scaled(total: int, record: Requantization) -> int:
    """Return the result of a sum."""
    return requantize(
        total,
        multiplier=int(record.multiplier[0]),
        shift=int(record.shift[0]),
        rounding=Rounding.TFLITE,
        zero_point=record.zero_point,
        low=int(np.max(record.low)),
        high=int(np.min(record.high)),
    )


def _saves(
    first: tuple[int, int, int], result: tuple[int, int, int], layer: MatMul, config: Config
) -> bool:
    """Return whether the array saves more than the vector path takes for tables."""
    inner, outer = (-(-shape[2] // config.array_size) for shape in (first, result))
    (before, _), (now, _) = (
        matmul_cycles(
            result[:2], (inner, outer), config, offsets=offsets, transposed=layer.transposed
        )
        for offsets in (2, 1)
    )
    vectors = first[0] * first[1]
    tables = sum(
        vector_cycles(VectorOp.LUT, vectors * blocks, 1, config) + turnaround(config)
        for blocks in (inner, outer)
    )
    return tables < _LESS * (before - now)
