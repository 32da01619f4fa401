"""Factors and addends of channels around convolutions and dense layers, which take them in.

Each would be rounded to 8 bits beside a convolution; inside it they cost nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.axes import Axes, add_constant
from tpulite.quant.floats.graph import Links, is_transposed, replace_node

_CONVOLUTIONS = ("Conv", "ConvTranspose")

_RANKS = (3, 4)
"""Axes of tensors that convolutions read: samples, channels, one or two axes of pixels."""

_MAP = 4
"""Axes of a feature map: samples, channels, rows, columns."""

_EPSILON = 1e-5
"""What BatchNormalization adds to variances if a file does not say it."""

_HARD_SIGMOID = (0.2, 0.5)
"""Factor and addend of HardSigmoid if a file does not give them."""


_NOTICED = 1e-3
"""Magnitude of an end of Clip that is no guard before a division or a root."""


@dataclass(frozen=True)
class _Affine:
    """What an operator multiplies a tensor with, and then adds: [1], or one a channel, [C]."""

    x: str
    factor: np.ndarray
    addend: np.ndarray
    axes: int = 1  #: Of the constant; the result has as many at least.


def fold_affines(model: onnx.ModelProto) -> None:
    """Put factors and addends of channels into the convolutions before or behind them.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place. Addends are not moved over zeros that pad a tensor, nor
        anything over a tensor that others read.
    """
    changed = True
    while changed:
        links = Links(model.graph)
        changed = any(_fold(model.graph, node, links) for node in model.graph.node)


def write_hard_sigmoids(graph: onnx.GraphProto) -> None:
    """Write HardSigmoid with a product, a sum and a clip, which integers have."""
    for node in [each for each in graph.node if each.op_type == "HardSigmoid"]:
        flags, y = attributes_of(node), node.output[0]
        numbers = (flags.get("alpha", _HARD_SIGMOID[0]), flags.get("beta", _HARD_SIGMOID[1]), 0, 1)
        slope, offset, low, high = (
            add_constant(graph, f"{y}_{name}", value)
            for name, value in zip(("slope", "offset", "low", "high"), numbers, strict=True)
        )
        scaled, shifted = f"{y}_scaled", f"{y}_shifted"
        made = [
            helper.make_node("Mul", [node.input[0], slope], [scaled], name=scaled),
            helper.make_node("Add", [scaled, offset], [shifted], name=shifted),
            helper.make_node("Clip", [shifted, low, high], [y], name=node.name),
        ]
        replace_node(graph, node, made)


def center_clips(graph: onnx.GraphProto, inside: Collection[str]) -> None:
    """Write a Clip whose ends are both above or below zero as one that ends at zero, and two sums.

    ONNX Runtime's quantizer leaves Clip to the rounding behind it, whose range always holds zero.
    ``inside`` has names of operators that are not rounded.
    """
    links = Links(graph)
    for node in [x for x in graph.node if x.op_type == "Clip" and x.name not in inside]:
        low, high = (links.scalar(x) for x in [*node.input[1:], "", ""][:2])
        offset = max(0.0, low or 0.0) + min(0.0, high or 0.0)
        if (
            abs(offset) < _NOTICED
            or links.constants[node.input[1 + (offset < 0)]].dtype != np.float32
        ):
            continue
        y = node.output[0]
        moved, clipped = f"{y}_moved", f"{y}_clipped"
        shift = add_constant(graph, f"{y}_offset", offset)
        ends = [
            "" if end is None else add_constant(graph, f"{y}_{name}", end - offset)
            for name, end in (("low", low), ("high", high))
        ]
        made = [
            helper.make_node("Sub", [node.input[0], shift], [moved], name=moved),
            helper.make_node("Clip", [moved, *ends], [clipped], name=node.name),
            helper.make_node("Add", [clipped, shift], [y], name=f"{y}_whole"),
        ]
        replace_node(graph, node, made)


def _fold(graph: onnx.GraphProto, node: onnx.NodeProto, links: Links) -> bool:
    """Put what an operator does into convolutions beside it, and take it out; False if none can."""
    affine = _affine(node, links)
    if affine is None:
        return False
    before, y = links.writer.get(affine.x), node.output[0]
    if before is not None and links.only_reader(affine.x) is node and _takes(before, affine, links):
        _follow(graph, before, affine, links)
        before.output[0] = y
    elif y not in links.outputs and _readers_take(node, affine, links):
        for each in links.readers[y]:
            _precede(graph, each, affine, links)
            each.input[0] = affine.x
    else:
        return _move_factor(graph, node, affine, links)
    graph.node.remove(node)
    return True


def _move_factor(
    graph: onnx.GraphProto, node: onnx.NodeProto, affine: _Affine, links: Links
) -> bool:
    """Put a factor of one number into the convolutions behind an addition, whose addend shrinks.

    False if there is none, or not all that reads the sum is a convolution.
    """
    before, y = links.writer.get(affine.x), node.output[0]
    first = None if before is None else _affine(before, links)
    alone = links.only_reader(affine.x) is node and node.op_type in ("Add", "Sub")
    if before is None or first is None or not alone or y in links.outputs:
        return False
    if first.addend.any() or first.factor.size != 1 or not first.factor.all():
        return False
    moved = _Affine(y, first.factor, np.zeros(1))
    if not _readers_take(node, moved, links):
        return False
    divided = f"{y}/divided"  # it is not what it was
    for each in links.readers[y]:
        _precede(graph, each, moved, links)
        each.input[0] = divided
    names = [first.x if x == affine.x else x for x in node.input]
    place = next(i for i, x in enumerate(names) if x in links.constants)
    addend = links.constants[names[place]] / first.factor.item()
    names[place] = add_constant(graph, f"{y}_addend", addend)
    del node.input[:]
    node.input.extend(names)
    node.output[0] = divided
    graph.node.remove(before)
    return True


def _affine(node: onnx.NodeProto, links: Links) -> _Affine | None:
    """Return what an operator does, if it is a product or a sum with constants of channels."""
    one, zero = np.ones(1), np.zeros(1)
    if node.op_type == "BatchNormalization" and len([x for x in node.output if x]) == 1:
        values = [links.constants.get(x) for x in node.input[1:]]
        if any(x is None for x in values):
            return None
        gamma, beta, mean, variance = (np.asarray(x, np.float64) for x in values)
        factor = gamma / np.sqrt(variance + attributes_of(node).get("epsilon", _EPSILON))
        return _Affine(node.input[0], factor, beta - mean * factor)
    if node.op_type not in ("Add", "Sub", "Mul", "Div"):
        return None
    last = node.input[1] in links.constants
    if not last and node.op_type in ("Sub", "Div"):
        return None
    name, x = (node.input[1], node.input[0]) if last else (node.input[0], node.input[1])
    value = _of_channels(links.constants.get(name))
    if value is None or x in links.constants:
        return None
    axes = links.constants[name].ndim
    match node.op_type:
        case "Add":
            return _Affine(x, one, value, axes)
        case "Sub":
            return _Affine(x, one, -value, axes)
        case "Mul":
            return _Affine(x, value, zero, axes)
        case _:
            return _Affine(x, 1 / value, zero, axes) if value.all() else None


def _of_channels(value: np.ndarray | None) -> np.ndarray | None:
    """Return a constant as [1] or [C]; None if it has other axes than that of channels."""
    if value is None or value.dtype != np.float32 or value.ndim > _MAP:
        return None
    alone = value.size == 1 or (value.ndim >= _MAP - 1 and value.shape[1 - _MAP] == value.size)
    return value.reshape(-1).astype(np.float64) if alone else None


def write_batch_norms(model: onnx.ModelProto) -> None:
    """Write each BatchNormalization of pixels as a convolution of single channels, in place.

    Its weights have a scale for each channel and its addends 32 bits, so only the result is
    rounded. LiteRT has no BatchNormalization.
    """
    links = Links(model.graph)
    axes = Axes(model, links)
    for node in [x for x in model.graph.node if x.op_type == "BatchNormalization"]:
        affine, rank = _affine(node, links), axes.rank(node.input[0])
        if affine is not None and rank in _RANKS:
            y = node.output[0]
            conv = channel_conv(model.graph, affine.x, y, affine.factor, affine.addend, rank)
            replace_node(model.graph, node, [conv])


def channel_conv(
    graph: onnx.GraphProto, x: str, y: str, factor: np.ndarray, addend: np.ndarray, rank: int
) -> onnx.NodeProto:
    """Return an operator that multiplies channels [B, C, ...] and adds to them."""
    weights = add_constant(graph, f"{y}_factors", factor.reshape(-1, 1, *(1,) * (rank - 2)))
    bias = add_constant(graph, f"{y}_addends", addend)
    return helper.make_node(
        "Conv", [x, weights, bias], [y], name=f"{y}_channels", group=factor.size
    )


def fold_behind(
    graph: onnx.GraphProto,
    node: onnx.NodeProto | None,
    factor: np.ndarray,
    addend: np.ndarray,
    y: str,
) -> bool:
    """Multiply the channels of a convolution's result, and add to them, in its constants.

    The result, which holds other numbers then, is named ``y``. False if it is no convolution, or
    one whose constants are not known.
    """
    links = Links(graph)
    if node is None or node.op_type not in _CONVOLUTIONS or not _known(node, links):
        return False
    _follow(graph, node, _Affine(node.output[0], factor, addend), links)
    node.output[0] = y
    return True


def _takes(node: onnx.NodeProto, affine: _Affine, links: Links) -> bool:
    """Tell whether an operator is a convolution whose constants can follow with an affine map."""
    if node.op_type not in (*_CONVOLUTIONS, "Gemm") or not _known(node, links):
        return False
    rank, sizes = links.constants[node.input[1]].ndim, {affine.factor.size, affine.addend.size}
    if affine.axes > rank:  # it gives the result more axes
        return False
    maps = node.op_type == "Gemm" or rank == _MAP
    return sizes == {1} or (maps and sizes <= {1, _channels(node, links)})


def _known(node: onnx.NodeProto, links: Links) -> bool:
    """Tell whether weights and bias are constants in float32, and a Gemm's rows are samples."""
    if attributes_of(node).get("transA", 0):
        return False
    values = [links.constants.get(x) for x in node.input[1:] if x]
    return all(x is not None and x.dtype == np.float32 for x in values)


def _channels(node: onnx.NodeProto, links: Links) -> int:
    """Return how many channels the result of a convolution has."""
    shape = links.constants[node.input[1]].shape
    if node.op_type == "Gemm":
        return shape[not is_transposed(node)]
    if node.op_type == "Conv":
        return shape[0]
    return shape[1] * attributes_of(node).get("group", 1)


def _follow(graph: onnx.GraphProto, node: onnx.NodeProto, affine: _Affine, links: Links) -> None:
    """Give a convolution the constants with which an affine map is behind it."""
    weight = links.constants[node.input[1]].astype(np.float64)
    channels = _channels(node, links)
    factor = np.broadcast_to(affine.factor, (channels,))
    if node.op_type == "Conv" or is_transposed(node):
        weight = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))
    elif node.op_type == "Gemm":
        weight = weight * factor
    else:
        groups = attributes_of(node).get("group", 1)
        shaped = weight.reshape(groups, -1, *weight.shape[1:])
        each = factor.reshape(groups, 1, -1, *(1,) * (weight.ndim - 2))
        weight = (shaped * each).reshape(weight.shape)
    _set(graph, node, weight, _bias(node, channels, links) * factor + affine.addend)


def _readers_take(node: onnx.NodeProto, affine: _Affine, links: Links) -> bool:
    """Tell whether all that read a result are convolutions that can do its affine map first."""
    readers = links.readers.get(node.output[0], [])
    shifts = bool(affine.addend.any())
    # A constant of channels could make channels of one.
    sure = node.op_type == "BatchNormalization" or affine.factor.size == affine.addend.size == 1
    return (
        bool(readers)
        and sure
        and all(
            each.op_type in ("Conv", "Gemm")
            and each.input[0] == node.output[0]
            and _known(each, links)
            and not (shifts and _pads(each))
            for each in readers
        )
    )


def _pads(node: onnx.NodeProto) -> bool:
    flags = attributes_of(node)
    return any(flags.get("pads", ())) or flags.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")


def _precede(graph: onnx.GraphProto, node: onnx.NodeProto, affine: _Affine, links: Links) -> None:
    """Give a convolution the constants with which an affine map is before it."""
    weight = links.constants[node.input[1]].astype(np.float64)
    if turned := node.op_type == "Gemm" and not is_transposed(node):
        weight = weight.T
    groups, results = attributes_of(node).get("group", 1), weight.shape[0]
    read = groups * weight.shape[1]
    each = weight.reshape(groups, results // groups, *weight.shape[1:])
    shape = (groups, 1, weight.shape[1], *(1,) * (weight.ndim - 2))
    factor, addend = (
        np.broadcast_to(x, (read,)).reshape(shape) for x in (affine.factor, affine.addend)
    )
    bias = _bias(node, results, links)
    if addend.any():
        bias = bias + (each * addend).sum(axis=tuple(range(2, each.ndim))).reshape(-1)
    scaled = (each * factor).reshape(weight.shape)
    _set(graph, node, scaled.T if turned else scaled, bias)


def _bias(node: onnx.NodeProto, channels: int, links: Links) -> np.ndarray:
    given = len(node.input) > 2 and node.input[2]
    return links.constants[node.input[2]].astype(np.float64) if given else np.zeros(channels)


def _set(
    graph: onnx.GraphProto, node: onnx.NodeProto, weight: np.ndarray, bias: np.ndarray
) -> None:
    """Give a convolution constants of its own."""
    names = [f"{node.output[0]}_{what}" for what in ("weight", "bias")]
    del node.input[1:]
    node.input.extend(
        add_constant(graph, name, value) for name, value in zip(names, (weight, bias), strict=True)
    )
