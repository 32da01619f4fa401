"""Operators that the host computes by numpy, with the bits of the libraries.

What they are, and of which types, :func:`tpulite.quant.own.is_own` tells.

What an LSTM makes of its products, with the bits of LiteRT's integer kernel.

Source: ``CalculateLstmGateInteger8x8_16``, ``UpdateLstmCellInteger`` and
``CalculateLstmOutputInteger8x8_16`` of tensorflow/lite/kernels/lstm_eval.cc.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8, Rounding, quantize_multiplier
from tpulite.golden.layers import run_layer
from tpulite.golden.ops import scale_accumulators, wrap32
from tpulite.graph.data_movement import DATA_MOVEMENT
from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.graph.layers import Elementwise
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.fixed_point import (
    INT16,
    divide,
    logistic_table,
    saturate,
    tanh_table,
    wrap,
)
from tpulite.quant.exactness.scaling import round_away
from tpulite.quant.own import pair_of, requantize_table
from tpulite.quant.tensors import UNSIGNED
from tpulite.runtime.host.tables import softmax_fixed_point, softmax_table

Integers = NDArray[np.int64]

_Peephole = tuple[Integers, float] | None

_BITS = 15
"""Fractional bits of what a function returns."""
_GATE_BITS = 3
"""Integer bits of gates."""


def lstm_gates(node: Node, values: Sequence[np.ndarray]) -> np.ndarray:
    """Compute all gates of a step, before their functions and what they see of the cell.

    Parameters
    ----------
    values : sequence of ndarray
        Sums of the input of all steps, int32 [batch, steps, gates * cells], or [steps, batch, ...]
        if it is ``time_major``; sums of the output before, int32 [batch, gates * cells]; a bias of
        each, int32 [gates * cells], which holds its input's zero point, too. They are added as
        int32, which wraps.

    Returns
    -------
    ndarray of int16, [batch, gates * cells]
        Gates of 12 fractional bits: input (none if it is coupled), forget, candidate, output.
    """
    every, recurrent, bias, other = (x.astype(np.int64) for x in values)
    sums = wrap32(every.take(node["step"], axis=0 if node["time_major"] else 1) + bias)
    recurrent = wrap32(recurrent + other)
    each = (
        saturate(saturate(_scale(x, first)) + _scale(h, second))
        for x, h, first, second in zip(
            _parted(sums, len(node["input_scales"])),
            _parted(recurrent, len(node["input_scales"])),
            node["input_scales"],
            node["recurrent_scales"],
            strict=True,
        )
    )
    return np.concatenate([*each], axis=-1).astype(np.int16)


def lstm_cell(node: Node, values: Sequence[np.ndarray]) -> np.ndarray:
    """Compute the cell state behind a step.

    Parameters
    ----------
    values : sequence of ndarray
        Gates, int16 [batch, gates * cells]; cell state, int16 [batch, cells]; weights of
        peepholes, int16 [peepholes * cells], if there are any.
    """
    gates, cell, *peephole = (x.astype(np.int64) for x in values)
    *early, candidate, _ = _parted(gates, gates.shape[-1] // cell.shape[-1])
    *holes, _ = _peepholes(node, peephole, len(early) + 1)
    *entering, forget = (_look(*each, cell) for each in zip(early, holes, strict=True))
    forgotten = _logistic(forget)
    entered = _logistic(entering[0]) if entering else INT16[-1] - forgotten
    power = node["cell_power"]
    new = wrap(divide(entered * _tanh(candidate, _GATE_BITS), 2 * _BITS + power))
    cell = saturate(wrap(divide(forgotten * cell, _BITS)) + new)
    clip = quantized_clip(node)
    return (np.clip(cell, -clip, clip) if clip else cell).astype(np.int16)


def lstm_output(node: Node, values: Sequence[np.ndarray]) -> np.ndarray:
    """Compute the output of a step, int8 [batch, cells].

    Parameters
    ----------
    values : sequence of ndarray
        As of :func:`lstm_cell`, but the cell state is that behind the step.
    """
    gates, cell, *peephole = (x.astype(np.int64) for x in values)
    count = gates.shape[-1] // cell.shape[-1]
    *_, last = _peepholes(node, peephole, count - 1)
    leaving = _look(_parted(gates, count)[-1], last, cell)
    shown = _logistic(leaving) * _tanh(cell, _BITS + node["cell_power"])
    output = _scale(shown, output_scale(node)) + node["hidden_zero_point"]
    return np.clip(output, INT8[0], INT8[-1]).astype(np.int8)


def output_scale(node: Node) -> float:
    """Return what products of 30 fractional bits are multiplied by."""
    half = 2.0**-_BITS
    return float(np.float32(half / node["hidden_scale"] * half))


def quantized_clip(node: Node) -> int:
    """Return the bound of a cell state as an integer, 0 if there is none."""
    unit = np.float32(2.0 ** node["cell_power"])
    return int(min(max(np.float32(node["cell_clip"]) / unit, INT16[0]), INT16[-1]))


def _peepholes(node: Node, weights: Sequence[Integers], count: int) -> list[_Peephole]:
    """Return the weights by which gates see the cell state, and their scales."""
    if not weights:
        return [None] * count
    scales = node["peephole_scales"]
    return list(zip(_parted(weights[0], count), scales, strict=True))


def _look(gate: Integers, hole: _Peephole, cell: Integers) -> Integers:
    """Add what a gate sees of the cell state."""
    return gate if hole is None else saturate(gate + _scale(hole[0] * cell, hole[1]))


def _parted(values: Integers, gates: int) -> list[Integers]:
    """Return what each gate has of the last axis."""
    return np.split(values, gates, axis=-1)


def _scale(values: Integers, scale: float) -> Integers:
    multiplier, shift = quantize_multiplier(scale)
    return scale_accumulators(values, multiplier=multiplier, shift=shift, rounding=Rounding.TFLITE)


def _logistic(x: Integers) -> Integers:
    return logistic_table()[x - INT16[0]].astype(np.int64)


def _tanh(x: Integers, bits: int) -> Integers:
    return tanh_table(bits)[x - INT16[0]].astype(np.int64)


# The numerics of softmax of integers.
_SOFTMAX = {
    "litert-ref": softmax_fixed_point,
    "tflm": softmax_fixed_point,
    "litert-opt": softmax_table,
    "litert-xnnpack": softmax_table,
}

_LSTM = {"lstm_gates": lstm_gates, "lstm_cell": lstm_cell, "lstm_output": lstm_output}

_BLOCK = 8
"""Elements that optimized QUANTIZE and DEQUANTIZE compute at once, and otherwise than a rest."""


def run_node(
    node: Node, graph: Graph, values: Mapping[str, np.ndarray], exact: Exactness
) -> dict[str, np.ndarray]:
    """Compute a node that is the host's own.

    Parameters
    ----------
    values : mapping of str to ndarray
        At least its inputs that are not constants, in the graph's shapes and dtypes.

    Returns
    -------
    dict of str to ndarray
        Its output, in the graph's shape and dtype.
    """
    each = [_value(graph.tensors[name], values) for name in node.inputs]
    if node.op in _LSTM:
        result = _LSTM[node.op](node, each)
    elif (pair := pair_of(node, graph, exact)) is not None:
        result = _pair(pair, *each)
    elif node.op == "stack":
        result = np.stack(each, axis=node["axis"])
    else:
        result = _compute(node, each[0], graph, exact)
    output = graph.tensors[node.outputs[0]]
    return {output.name: result.astype(output.dtype, copy=False).reshape(output.shape)}


def _value(tensor: Tensor, values: Mapping[str, np.ndarray]) -> np.ndarray:
    return values[tensor.name] if tensor.data is None else tensor.data


def _pair(layer: Elementwise, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the integers that a layer makes of two tensors of one dtype."""
    offset = UNSIGNED if a.dtype == np.uint8 else 0
    images = ((x.astype(np.int64) - offset).astype(np.int8) for x in (a, b))
    return run_layer(layer, *images).astype(np.int64) + offset


def _compute(node: Node, x: np.ndarray, graph: Graph, exact: Exactness) -> np.ndarray:
    tensor, output = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    match node.op:
        case "quantize":
            return quantize(x, _meaning(output), output.dtype, exact)
        case "dequantize":
            return dequantize(x, _meaning(tensor), exact)
        case "requantize":
            table = requantize_table(tensor, output, exact)
            assert table is not None
            return table[x.astype(np.int64) - np.iinfo(tensor.dtype).min]
        case "softmax":
            return _softmax(node, x, tensor, output, exact)
    return DATA_MOVEMENT[graph.format][node.op](node, [x], [output])[0]


def quantize(x: np.ndarray, q: Quantization, dtype: str, exact: Exactness) -> np.ndarray:
    """Turn float32 numbers into integers as QUANTIZE of TFLite or QuantizeLinear of ONNX does.

    LiteRT's reference divides and rounds half away from zero; its other kernels multiply by the
    reciprocal and round half to even, but the optimized one the last few elements: it divides those
    in float64 and rounds half away from zero. ONNX Runtime divides and rounds half to even. What
    is not a number becomes the least integer.
    """
    x, (scale, zero_point) = x.astype(np.float32), q.along(x.ndim)
    with np.errstate(over="ignore", invalid="ignore"):
        if exact in ("litert-opt", "litert-xnnpack"):
            scaled = np.rint(x * (np.float32(1) / scale))
            if exact == "litert-opt" and q.axis is None:
                scaled, rest = np.asarray(scaled, order="C"), x.size % _BLOCK
                last = x.reshape(-1)[x.size - rest :].astype(np.float64) / float(q.scale[0])
                scaled.reshape(-1)[x.size - rest :] = round_away(last)
        elif exact.ort:
            scaled = np.rint(x / scale)
        else:
            ratio = (x / scale).astype(np.float64)
            scaled = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)
    limits = np.iinfo(dtype)
    scaled = np.where(np.isnan(scaled), -np.inf, scaled + zero_point.astype(np.float64))
    return np.clip(scaled, limits.min, limits.max).astype(dtype)


def dequantize(x: np.ndarray, q: Quantization, exact: Exactness) -> np.ndarray:
    """Turn integers into float32 numbers as DEQUANTIZE of TFLite or ONNX does.

    LiteRT's optimized kernel adds ``-scale * zero_point``, but in the last few elements.
    """
    scale, zero_point = q.along(x.ndim)
    x = np.asarray(x, order="C")  # the result is written by its flat positions
    centered = x.astype(np.float32) - zero_point.astype(np.float32)
    result = centered * scale
    if exact == "litert-opt" and q.axis is None:
        whole = x.size // _BLOCK * _BLOCK
        offset = np.float32(-float(q.zero_point[0]) * float(q.scale[0]))
        flat = x.reshape(-1)[:whole].astype(np.float32) * q.scale[0] + offset
        result.reshape(-1)[:whole] = flat
    return result


def _softmax(
    node: Node, x: np.ndarray, tensor: Tensor, output: Tensor, exact: Exactness
) -> np.ndarray:
    limits = np.iinfo(output.dtype)
    axis = node.attributes.get("axis", -1)
    scale, beta = float(_meaning(tensor).scale[0]), float(node.attributes.get("beta", 1.0))
    bits = range(limits.min, limits.max + 1)
    return np.moveaxis(_SOFTMAX[exact](np.moveaxis(x, axis, -1), scale, beta, bits), -1, axis)


def _meaning(tensor: Tensor) -> Quantization:
    assert tensor.quantization is not None
    return tensor.quantization
