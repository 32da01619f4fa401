"""Operators of the host as calls of C functions, with tables that hold the exact bits."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tpulite.arch.numerics import quantize_multiplier
from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.softmax import FIXED_POINT, fixed_point_exponentials
from tpulite.quant.own import requantize_table
from tpulite.runtime.host.ops import dequantize, output_scale, quantize, quantized_clip
from tpulite.runtime.host.tables import exponentials


@dataclass(frozen=True)
class HostCall:
    """A call of a function of ``tpulite_host.h``."""

    function: str  #: The function.
    arguments: str  #: Type of its arguments.
    fields: Mapping[str, object] | int  #: The arguments; or their only value.
    #: Arrays that more of its arguments point to: float32, int32 or uint32.
    pointers: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedCall:
    """A call whose arguments are computed when they are needed, for which a library may run."""

    reads: tuple[str, ...]  #: The tensors that it reads, one or two.
    #: Returns the call; ValueError if its tables would not have the bits of the library.
    make: Callable[[], HostCall]


_INFINITY = 0x7F800000
_INTEGERS = 256
_BLOCK = 8
"""Elements that LiteRT's optimized kernels compute at once, and the last ones in another way."""
_GATE_BITS = 15
"""Integer bits of a cell whose scale is 1."""


def host_call(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    """Return the call that computes a node of the host's own.

    ValueError if its tables would not have the bits of the library.
    """
    return HOST_CALLS[node.op](node, graph, exact)


def copied(tensor: Tensor) -> HostCall:
    """Return the call that copies a tensor."""
    size = math.prod(tensor.shape) * np.dtype(tensor.dtype).itemsize
    return HostCall("tpulite_copy", "uint32_t", size)


def _quantize(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    _, y = _ends(node, graph)
    assert y.quantization is not None
    meaning, count, named = y.quantization, math.prod(y.shape), f"{node.name!r} ({node.source})"

    def integers(values: np.ndarray) -> np.ndarray:
        return quantize(np.repeat(values, _BLOCK), meaning, y.dtype, exact)[::_BLOCK]

    def alone(values: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [quantize(x, meaning, y.dtype, exact) for x in np.split(values, len(values))]
        )

    least = least_floats(integers, named)
    tail = least_floats(alone, named) if count % _BLOCK else least
    rest = 0 if (least == tail).all() else count % _BLOCK
    fields = {
        "count": count,
        "rest": rest,
        "least": np.iinfo(y.dtype).min & 0xFF,
        "thresholds": least,
    }
    pointers = {"rest_thresholds": tail.astype(np.int32)} if rest else {}
    return HostCall("tpulite_quantize", "tpulite_quantization", fields, pointers)


def least_floats(integers: Callable[[np.ndarray], np.ndarray], named: str) -> np.ndarray:
    """Find the least float of each integer by bisection, of all integers at once.

    Parameters
    ----------
    integers : callable
        Returns the int8 or uint8 that become of float32.

    Returns
    -------
    ndarray of int64, [255]
        The place of each in the order of floats, as ``tpulite_quantize`` has it.

    Raises
    ------
    ValueError
        If integers do not rise with floats.
    """

    def levels(keys: np.ndarray) -> np.ndarray:
        found = integers(_floats(keys))
        return found.astype(np.int64) - np.iinfo(found.dtype).min

    wanted = np.arange(1, _INTEGERS)
    low, high = (np.full(_INTEGERS - 1, sign * _INFINITY, np.int64) for sign in (-1, 1))
    while (high - low > 1).any():
        middle = (low + high) >> 1
        reached = levels(middle) >= wanted
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    tried = np.array([-_INFINITY, -1, 0, 1, _INFINITY], np.int64)
    if (levels(tried) != np.searchsorted(high, tried, side="right")).any():
        raise ValueError(f"{named} does not rise with its input")
    return high


def _floats(keys: np.ndarray) -> np.ndarray:
    """Return floats by their place in order: bits, of negative ones those of the magnitude."""
    bits = np.where(keys < 0, -keys | 0x80000000, keys).astype(np.uint32)
    return bits.view(np.float32)


def _dequantize(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    x, _ = _ends(node, graph)
    assert x.quantization is not None
    count, integers = math.prod(x.shape), np.arange(_INTEGERS, dtype=np.uint8).view(x.dtype)
    # The optimized kernel computes the last elements in another way, as it does a single one.
    whole = dequantize(integers, x.quantization, exact)
    alone = [dequantize(integers[i : i + 1], x.quantization, exact) for i in range(_INTEGERS)]
    tail = np.concatenate(alone)
    rest = 0 if (whole == tail).all() else count % _BLOCK
    fields = {"count": count, "rest": rest, "values": whole}
    pointers = {"rest_values": tail} if rest else {}
    return HostCall("tpulite_dequantize", "tpulite_dequantization", fields, pointers)


def _requantize(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    x, y = _ends(node, graph)
    table = requantize_table(x, y, exact)
    assert table is not None
    integers = np.arange(_INTEGERS, dtype=np.uint8).view(x.dtype).astype(np.int64)
    values = table[integers - np.iinfo(x.dtype).min].view(np.uint8)
    fields = {"count": math.prod(x.shape), "values": values}
    return HostCall("tpulite_look_up", "tpulite_table", fields)


def _reshape(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    return copied(_ends(node, graph)[0])


def _transpose(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    x, _ = _ends(node, graph)
    size = np.dtype(x.dtype).itemsize
    steps = [size * math.prod(x.shape[axis + 1 :]) for axis in range(len(x.shape))]
    fields = {
        "rank": len(x.shape),
        "element_bytes": size,
        "first": 0,
        "extents": [x.shape[axis] for axis in node["perm"]],
        "steps": [steps[axis] for axis in node["perm"]],
    }
    return HostCall("tpulite_transpose", "tpulite_transposition", fields)


def _argmax(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    x, y = _ends(node, graph)
    fields = along_axis(node, x) | {"result_bytes": np.dtype(y.dtype).itemsize}
    return HostCall("tpulite_argmax", "tpulite_argmax_axis", fields)


def _softmax(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    x, _ = _ends(node, graph)
    assert x.quantization is not None
    scale, beta = float(x.quantization.scale[0]), float(node.attributes.get("beta", 1.0))
    if exact in FIXED_POINT:
        exps = fixed_point_exponentials(scale, beta)
        fields = along_axis(node, x) | {"exps": exps}
        return HostCall("tpulite_softmax", "tpulite_softmax_integers", fields)
    fields = along_axis(node, x) | {"exps": exponentials(scale, beta)}
    return HostCall("tpulite_softmax_float", "tpulite_softmax_floats", fields)


def _lstm_gates(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    x, _ = _ends(node, graph)
    y = graph.tensors[node.outputs[0]]
    bias, other = (graph.tensors[name].data for name in node.inputs[2:])
    assert bias is not None
    assert other is not None
    gates, (batch, width) = len(node["input_scales"]), y.shape
    steps = math.prod(x.shape) // math.prod(y.shape)
    major = node["time_major"]
    fields = {
        "batch": batch,
        "gates": gates,
        "cells": width // gates,
        "first": node["step"] * width * (batch if major else 1),
        "step": width * (1 if major else steps),
        **_scales(node["input_scales"]),
        **_scales(node["recurrent_scales"], "other_"),
    }
    return HostCall(
        "tpulite_lstm_gates", "tpulite_lstm_sums", fields, {"bias": bias, "other_bias": other}
    )


def _lstm_cell(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    return _lstm_state(node, graph, "tpulite_lstm_cell", {"clip": quantized_clip(node)})


def _lstm_output(node: Node, graph: Graph, exact: Exactness) -> HostCall:
    multiplier, shift = quantize_multiplier(output_scale(node))
    fields = {"multiplier": multiplier, "shift": shift, "zero_point": node["hidden_zero_point"]}
    fields = {f"output_{name}": value for name, value in fields.items()}
    return _lstm_state(node, graph, "tpulite_lstm_output", fields)


def _lstm_state(node: Node, graph: Graph, function: str, more: Mapping[str, object]) -> HostCall:
    """Return the call of a function of gates and cells."""
    gates, cell = (graph.tensors[name].shape for name in node.inputs[:2])
    fields: dict[str, object] = {
        **more,
        "batch": cell[0],
        "gates": gates[1] // cell[1],
        "cells": cell[1],
        "bits": _GATE_BITS + node["cell_power"],
    }
    pointers = {}
    for name in node.inputs[2:]:
        weights = graph.tensors[name].data
        assert weights is not None
        fields |= _scales(node["peephole_scales"])
        pointers["peepholes"] = weights
    return HostCall(function, "tpulite_lstm_state", fields, pointers)


def _scales(scales: Sequence[float], prefix: str = "") -> dict[str, object]:
    """Return the multipliers and shifts of scales."""
    pairs = [quantize_multiplier(scale) for scale in scales]
    names = f"{prefix}multipliers", f"{prefix}shifts"
    return {name: list(each) for name, each in zip(names, zip(*pairs, strict=True), strict=True)}


def stack_calls(node: Node, graph: Graph) -> list[PlannedCall]:
    """Return the calls that put tensors side by side along a new axis."""
    y, axis = graph.tensors[node.outputs[0]], node["axis"]
    size = math.prod(y.shape[axis + 1 :]) * np.dtype(y.dtype).itemsize
    rows = {"rows": math.prod(y.shape[:axis]), "row_bytes": size, "step": y.shape[axis] * size}
    each = (
        HostCall("tpulite_put_rows", "tpulite_rows", rows | {"first": index * size})
        for index in range(y.shape[axis])
    )
    return [
        PlannedCall((name,), partial(_same, call))
        for name, call in zip(node.inputs, each, strict=True)
    ]


def _same(call: HostCall) -> HostCall:
    return call


def along_axis(node: Node, x: Tensor) -> dict[str, object]:
    """Return the fields of a call that works along an axis: extents around it, and the type."""
    axis = node.attributes.get("axis", -1) % len(x.shape)
    return {
        "outer": math.prod(x.shape[:axis]),
        "count": x.shape[axis],
        "inner": math.prod(x.shape[axis + 1 :]),
        "is_signed": int(x.dtype == "int8"),
    }


def _ends(node: Node, graph: Graph) -> tuple[Tensor, Tensor]:
    return graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]


HOST_CALLS: Mapping[str, Callable[[Node, Graph, Exactness], HostCall]] = {
    "argmax": _argmax,
    "dequantize": _dequantize,
    "lstm_cell": _lstm_cell,
    "lstm_gates": _lstm_gates,
    "lstm_output": _lstm_output,
    "quantize": _quantize,
    "requantize": _requantize,
    "reshape": _reshape,
    "softmax": _softmax,
    "transpose": _transpose,
}
"""One for each operator of :func:`tpulite.quant.own.is_own` that firmware has."""
