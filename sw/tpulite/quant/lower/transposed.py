"""Transposed convolutions, whose rounding depends on more than that of others."""

import math

import numpy as np

from tpulite.frontend.padding import is_cropped
from tpulite.graph.graph import Node
from tpulite.graph.layers import TransposedConv
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.products import (
    kernels_of,
    requantization_of,
    require_rank,
    weight_zero_point,
)
from tpulite.quant.tensors import UnsupportedError, centered

_FLAT = 16
"""Elements at a time of LiteRT's optimized kernel of uint8; the rest is left to scalar code."""


def lower_transposed_conv(node: Node, context: GraphContext) -> None:
    """Lower a transposed convolution; its weights are [O, kh, kw, I]."""
    weight = context.tensor(node.inputs[1])
    require_rank(weight, 4)
    optimized = kernels_of(node, context, "transposed_conv") == Exactness.LITERT_OPT
    rest = math.prod(context.tensor(node.outputs[0]).shape) % _FLAT
    if is_cropped(node, context.tensor):  # what ONNX leaves out LiteRT rounds, too
        rest = _FLAT
    if optimized and rest and context.quantized(node.inputs[0]).unsigned:
        raise UnsupportedError(f"LiteRT's vector code rounds the last {rest} elements differently")
    context.read(node.inputs[0])
    shape = context.write(node.outputs[0]).shape
    requantization = requantization_of(node, context, "transposed_conv", axis=0)
    context.emit(
        TransposedConv,
        node.name,
        (node.inputs[0],),
        node.outputs[0],
        weight=np.ascontiguousarray(centered(weight).transpose(1, 2, 3, 0)),
        requantization=requantization,
        input_zero_point=context.quantized(node.inputs[0]).zero,
        weight_zero_point=weight_zero_point(weight),
        stride=tuple(node["stride"]),
        padding=tuple(node["padding"]),
        size=shape[:2],
    )
