"""Channels before an activation that are far larger than the others: several channels share them.

GELU, SiLU and HardSwish, with a factor k or without, satisfy f(x) - f(-x) = k x and are zero for
numbers far below zero. So the part of x that is above a number is made by pairs of channels, x - a
and a - x, each of which is clipped like all others. Rows of the product before are repeated with
other biases, and those of the product behind with both signs. Zhao and others ("Improving Neural
Network Quantization without Retraining using Outlier Channel Splitting", 2019) halve such channels,
which an activation does not allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from tpulite.frontend.onnx.library import open_session
from tpulite.frontend.onnx.read.attributes import names_read
from tpulite.quant.floats.axes import add_constant
from tpulite.quant.floats.graph import Links, is_transposed
from tpulite.quant.floats.observe import Feed, live_tokens, padding_input, run_for

_PAIRS = 8
"""Most pairs of channels that are added: a block of channels of the machine."""

_LEAST = 64
"""Fewest channels of a layer for each pair that is added."""

_WORTH = 0.7
"""A range has to become that much shorter."""

_SPARE = 1.1
"""How much larger channels may be in other samples."""

_STEPS = 255
"""Steps of a range of 8 bits."""

_GRID = np.linspace(-32.0, 32.0, 4097)
"""Numbers for which an activation is computed."""

_CLOSE = 5e-3
"""How far an activation over its factor may be from the rule: GELU by a tangent is not exact."""

_CURVES = frozenset({"Erf", "Gelu", "HardSwish", "Sigmoid", "Swish", "QuickGelu", "Tanh"})
"""Operators of which an activation has one at least."""

_BETWEEN = frozenset({*_CURVES, "Add", "Div", "Identity", "Mul", "Pow", "Reshape", "Sub"})


@dataclass(frozen=True)
class _Layer:
    """Two products and the activation between them."""

    first: onnx.NodeProto
    last: onnx.NodeProto
    between: list[onnx.NodeProto]


def split_outliers(model: onnx.ModelProto, feeds: Sequence[Feed]) -> None:
    """Clip what activations read, and give channels that need more several channels.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place. Products with biases are Gemm.
    feeds : sequence of mapping of str to ndarray
        Samples.
    """
    links = Links(model.graph)
    layers = [x for x in (_layer(node, links) for node in model.graph.node) if x is not None]
    if not layers:
        return
    highs = _highest(model, feeds, [layer.first.output[0] for layer in layers])
    for layer in layers:
        values = _values(layer, links)
        factor = float(values[-1] - values[0]) / _GRID[-1]
        if factor > 0 and _follows_rule(values / factor):
            highest = highs[layer.first.output[0]] * _SPARE
            _split(model.graph, layer, links, values / factor, highest, factor)
    del model.graph.value_info[:]


def _layer(first: onnx.NodeProto, links: Links) -> _Layer | None:
    """Return the layer that begins with a product."""
    if not _has_bias(first, links):
        return None
    made = [first.output[0]]
    between: list[onnx.NodeProto] = []
    ends: list[onnx.NodeProto] = []
    for node in links.graph.node:  # each behind those that it reads
        if not names_read(node) & {*made}:
            continue
        if node.op_type == "Gemm":
            ends.append(node)
        elif _is_between(node, made, first, links):
            between.append(node)
            made += node.output
        else:
            return None
    curved = any(node.op_type in _CURVES for node in between)
    if not curved or len(ends) != 1 or links.outputs & {*made} or not _has_bias(ends[0], links):
        return None
    return _Layer(first, ends[0], between)


def _is_between(
    node: onnx.NodeProto, made: Sequence[str], first: onnx.NodeProto, links: Links
) -> bool:
    """Tell whether an operator computes or moves each number of a layer by itself."""
    if node.op_type == "Reshape":
        shape = links.constants.get(node.input[1])
        columns = links.constants[first.input[1]].shape[0 if is_transposed(first) else 1]
        return shape is not None and shape.size > 0 and int(shape.ravel()[-1]) == columns
    others = [x for x in node.input if x and x not in made]
    return node.op_type in _BETWEEN and all(links.scalar(x) is not None for x in others)


def _has_bias(node: onnx.NodeProto, links: Links) -> bool:
    return node.op_type == "Gemm" and len(node.input) > 2 and links.is_product(node)


def _follows_rule(values: np.ndarray) -> bool:
    return np.abs(values - values[::-1] - _GRID).max() < _CLOSE and abs(values[0]) < _CLOSE


def _values(layer: _Layer, links: Links) -> np.ndarray:
    """Return the activation on the grid, in float64."""
    nodes = []
    for node in layer.between:
        made = onnx.NodeProto()
        made.CopyFrom(node)
        if node.op_type == "Reshape":
            made = helper.make_node("Identity", node.input[:1], node.output)
        nodes.append(made)
    x, y = layer.first.output[0], layer.last.input[0]
    read = {name for node in nodes for name in node.input}
    constants = [
        onnx.numpy_helper.from_array(value, name)
        for name, value in links.constants.items()
        if name in read
    ]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "activation",
        [helper.make_tensor_value_info(x, kind, [_GRID.size])],
        [helper.make_tensor_value_info(y, kind, None)],
        constants,
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    (values,) = open_session(data, "DISABLE_ALL").run(None, {x: _GRID.astype(np.float32)})
    return np.asarray(values, np.float64).ravel()  # constants of one number may have axes


def _highest(
    model: onnx.ModelProto, feeds: Sequence[Feed], names: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return the largest number of each channel, at least 0: float64 [C]."""
    mask = padding_input(model.graph)
    found: dict[str, np.ndarray] = {}
    for feed, values in zip(feeds, run_for(names, model, feeds, "ENABLE_BASIC"), strict=True):
        for name, value in values.items():
            live = live_tokens(value, feed, mask).reshape(-1, value.shape[-1])
            high = live.max(axis=0, initial=0.0).astype(np.float64)
            found[name] = np.maximum(found.get(name, 0.0), high)
    return found


def _split(
    graph: onnx.GraphProto,
    layer: _Layer,
    links: Links,
    values: np.ndarray,
    highs: np.ndarray,
    factor: float,
) -> None:
    """Clip what an activation reads, a factor times ``values``; channels reach up to ``highs``."""
    top = _top(values, highs)
    low = _low(values, top)
    pairs = _pairs(highs, top)
    if pairs.any():
        _repeat(graph, layer, links, top, pairs, factor)
    name = layer.first.output[0]
    ends = [add_constant(graph, f"{name}_{what}", x) for what, x in (("low", low), ("top", top))]
    wide = f"{name}_wide"
    clip = helper.make_node("Clip", [wide, *ends], [name], name=f"{wide}_clip")
    layer.first.output[0] = wide
    graph.node.insert(list(graph.node).index(layer.first) + 1, clip)


def _top(values: np.ndarray, highs: np.ndarray) -> float:
    """Return where channels are clipped: the largest number, unless few channels are above less.

    As far below zero the activation differs from zero by less than a step of the whole range: by so
    much pairs differ from the channel that they replace.
    """
    most = float(highs.max())
    room = min(_PAIRS, highs.size // _LEAST)
    tops = most * np.linspace(0.05, _WORTH, 66)
    tops = tops[np.interp(-tops, _GRID, np.maximum.accumulate(np.abs(values))) <= most / _STEPS]
    return float(next((top for top in tops if _pairs(highs, top).sum() <= room), most))


def _pairs(highs: np.ndarray, top: float) -> np.ndarray:
    """Return how many pairs each channel needs: int64 [C]."""
    return np.ceil(np.maximum(highs - top, 0) / (2 * top or 1)).astype(np.int64)


def _low(values: np.ndarray, top: float) -> float:
    """Return below which number an activation differs from zero by less than half a step."""
    below = _GRID < -1
    wrong = np.maximum.accumulate(np.abs(values[below]))
    return float(_GRID[below][wrong <= top / _STEPS / 2].max(initial=_GRID[0]))


def _repeat(
    graph: onnx.GraphProto,
    layer: _Layer,
    links: Links,
    top: float,
    pairs: np.ndarray,
    factor: float,
) -> None:
    """Add channels for what is above ``top``, each pair for twice as much."""
    channels = np.repeat(np.arange(pairs.size), pairs)
    steps = np.concatenate([np.arange(1, count + 1) for count in pairs]) * 2 * top
    both = np.concatenate([channels, channels])
    signs = np.repeat([1.0, -1.0], channels.size)
    first, last = (
        links.constants[node.input[1]].astype(np.float64) for node in (layer.first, layer.last)
    )
    first = first if is_transposed(layer.first) else first.T
    last = last.T if is_transposed(layer.last) else last
    bias, other = (
        links.constants[node.input[2]].astype(np.float64) for node in (layer.first, layer.last)
    )
    more = signs[:, None] * first[both]
    first = np.concatenate([first, more])
    bias = np.concatenate([bias, signs * (bias[both] - np.tile(steps, 2))])
    other = other + factor * top * last[channels].sum(axis=0)
    last = np.concatenate([last, signs[:, None] * last[both]])
    for node, weight, addend in ((layer.first, first.T, bias), (layer.last, last, other)):
        weight = weight.T if is_transposed(node) else weight
        for index, value in ((1, weight), (2, addend)):
            node.input[index] = add_constant(graph, f"{node.input[index]}_split", value)
            links.constants[node.input[index]] = value  # the last product may begin a layer, too
    for node in layer.between:
        if node.op_type == "Reshape":
            shape = links.constants[node.input[1]].copy()
            shape[-1] = first.shape[0]
            node.input[1] = add_constant(graph, f"{node.input[1]}_split", shape, None)
