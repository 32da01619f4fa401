"""Scales of channels, where floats stand beside a product: its result, or what it reads.

Weights have a scale for each channel, activations one for all. A factor for each channel that a
float operator multiplies lets every channel use all of the 8 bits.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.axes import Axes, add_constant, set_constant
from tpulite.quant.floats.graph import Links, is_transposed
from tpulite.quant.floats.observe import Feed, run_for
from tpulite.quant.floats.ranges import Range

_KEPT = 512
"""Rows of a product that are kept: on them factors are tried."""

_SHARES = (0.25, 0.5, 0.75, 1.0)
"""How much of the differences between channels goes from activations into weights."""

_GAIN = 0.7
"""Share of the noise that factors may leave; with more they are not worth an operator."""

_ENOUGH = 128
"""Rows from which the ends of a channel are known."""

_HEADROOM = 2
"""Factor that channels may be larger in other samples, as far as the largest channel allows it."""

_ROOM = 4
"""Room beyond the ends of channels, divided by the root of the rows that were seen."""

_FLOOR = 2.0**-10
"""Least extent of a channel, as a share of the largest: less is no information."""

_LEVELS = 255
_SIGNED = 127


@dataclass(frozen=True)
class Scaled:
    """What was done."""

    ranges: dict[str, Range]  #: Ranges of scaled results, in which no channel is clipped.
    inside: frozenset[str]  #: Names of operators that were added; they stay in floats.


@dataclass
class _Seen:
    """What was seen of the channels of a tensor."""

    low: np.ndarray
    high: np.ndarray
    count: int = 0
    rows: list[np.ndarray] = field(default_factory=list)

    @property
    def room(self) -> float:
        """Return by how much ranges of channels should be longer than what was seen."""
        return 1 + _ROOM / max(1, self.count) ** 0.5


@dataclass
class _Source:
    """A tensor that floats make and products read: the axis of channels, and its rank."""

    axis: int
    rank: int
    even: bool = True
    products: list[onnx.NodeProto] = field(default_factory=list)
    passed: set[int] = field(default_factory=set)


def scale_channels(
    model: onnx.ModelProto, feeds: Sequence[Feed], inside: Collection[str]
) -> Scaled:
    """Multiply channels beside products, and the weights of these by what that needs.

    Results that only floats read are centered and scaled to one; the operators behind them undo
    it. What products read from floats is divided as far as their results gain.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place. All operators have names.
    feeds : sequence of mapping of str to ndarray
        Samples.
    inside : collection of str
        Names of operators that stay in floats.

    Returns
    -------
    Scaled
        What was done.
    """
    links = Links(model.graph)
    results = {node.output[0]: node for node in _results(model.graph, links, inside)}
    sources = dict(_sources(model, links, inside))
    seen = _observe(model, feeds, {name: _axis(node) for name, node in results.items()}, sources)
    added: list[onnx.NodeProto] = []
    ranges: dict[str, Range] = {}
    for name, node in results.items():
        if name in seen and seen[name].count >= _ENOUGH:
            added += _scale_result(model.graph, node, seen[name], links)
            ranges[node.output[0]] = (-seen[name].room, seen[name].room)
    links = Links(model.graph)
    for name, source in sources.items():
        factors = _factors(seen[name], source.products, links) if name in seen else None
        if factors is not None:
            added.append(_scale_source(model.graph, name, source, factors, links))
    return Scaled(ranges, frozenset(node.name for node in added))


def _axis(node: onnx.NodeProto) -> int:
    """Return the axis of the channels of a product's activations."""
    return 1 if node.op_type == "Conv" else -1


def _results(
    graph: onnx.GraphProto, links: Links, inside: Collection[str]
) -> Iterator[onnx.NodeProto]:
    """Yield products whose results only floats read."""
    for node in graph.node:
        readers = links.readers.get(node.output[0], [])
        alone = node.output[0] not in links.outputs and all(x.name in inside for x in readers)
        if any(x.op_type == "ReduceMax" for x in readers):
            continue  # scores of a softmax, of which some are seldom large
        if readers and alone and node.name not in inside and links.is_product(node):
            yield node


def _sources(
    model: onnx.ModelProto, links: Links, inside: Collection[str]
) -> Iterator[tuple[str, _Source]]:
    """Yield tensors that floats make and only products read, perhaps after moves."""
    axes = Axes(model, links)
    found: dict[str, _Source] = {}
    for node in model.graph.node:
        if not links.is_product(node) or attributes_of(node).get("group", 1) > 1:
            continue
        name, axis = node.input[0], axes.channels(node)
        passed = {id(node)}
        while axis is not None and (before := links.writer.get(name)) is not None:
            if before.name in inside:
                source = found.setdefault(name, _Source(axis, axes.rank(name)))
                source.products.append(node)
                source.passed |= passed
                source.even &= source.axis == axis
                break
            passed.add(id(before))
            name, axis = before.input[0], axes.before(before, axis)
    for name, source in found.items():
        todo, alone = [name], source.even
        while todo:
            now = todo.pop()
            readers = [x for x in links.readers.get(now, []) if x.name not in inside]
            alone &= now not in links.outputs and all(id(x) in source.passed for x in readers)
            todo += [x.output[0] for x in readers if x not in source.products]
        if alone:
            yield name, source


def _observe(
    model: onnx.ModelProto,
    feeds: Sequence[Feed],
    axes: Mapping[str, int],
    sources: Mapping[str, _Source],
) -> dict[str, _Seen]:
    """Run a network for ends of channels, and for some rows of what products read."""
    wanted = {**axes, **{name: source.axis for name, source in sources.items()}}
    if not wanted:
        return {}
    rng = np.random.default_rng(0)
    seen: dict[str, _Seen] = {}
    for values in run_for(wanted, model, feeds, "ENABLE_BASIC"):
        for name, value in values.items():
            rows = np.moveaxis(value, wanted[name], -1).reshape(-1, value.shape[wanted[name]])
            low, high = rows.min(axis=0), rows.max(axis=0)
            each = seen.setdefault(name, _Seen(low, high))
            each.low, each.high = np.minimum(each.low, low), np.maximum(each.high, high)
            each.count += len(rows)
            if name in sources:
                count = max(1, _KEPT // len(feeds))
                each.rows.append(rows[rng.integers(0, len(rows), count)])
    return {name: each for name, each in seen.items() if np.isfinite(each.high - each.low).all()}


def _scale_result(
    graph: onnx.GraphProto, node: onnx.NodeProto, seen: _Seen, links: Links
) -> list[onnx.NodeProto]:
    """Let all channels of a result reach from -1 to 1, and undo it behind."""
    low, high = seen.low.astype(np.float64), seen.high.astype(np.float64)
    if node.op_type == "MatMul":  # has no bias
        high = np.maximum(np.abs(low), np.abs(high))
        low = -high
    half, middle = (high - low) / 2, (high + low) / 2
    if not half.max(initial=0):
        return []
    half = np.clip(_HEADROOM * half, half.max() * _FLOOR, half.max())
    weight = links.constants[node.input[1]].astype(np.float64)
    across = _along(weight.ndim, _channels_out(node))
    set_constant(graph, node.input[1], weight / half.reshape(across))
    if node.op_type != "MatMul":
        bias = links.constants[node.input[2]] if len(node.input) > 2 and node.input[2] else 0.0
        _bias(graph, node, (bias - middle) / half)
    name = node.output[0]
    shape = _along(weight.ndim, 1) if node.op_type == "Conv" else [-1]
    node.output[0] = f"{name}_equal"
    made = [
        _node(graph, "Mul", [node.output[0]], half.reshape(shape), f"{name}_scaled"),
        _node(graph, "Add", [f"{name}_scaled"], middle.reshape(shape), name),
    ]
    place = next(i for i, each in enumerate(graph.node) if node.output[0] in each.output)
    for each in reversed(made):
        graph.node.insert(place + 1, each)
    return made


def _channels_out(node: onnx.NodeProto) -> int:
    """Return the axis of the weights for channels of the result."""
    return 0 if node.op_type == "Conv" or is_transposed(node) else 1


def _along(rank: int, axis: int) -> list[int]:
    """Return the shape of a vector along an axis."""
    return [-1 if each == axis else 1 for each in range(rank)]


def _factors(seen: _Seen, products: Sequence[onnx.NodeProto], links: Links) -> np.ndarray | None:
    """Return by what channels should be divided; None if nothing is gained."""
    weights = [_matrix(each, links.constants[each.input[1]]) for each in products]
    together = np.concatenate(weights, axis=1).astype(np.float64)
    rows = np.concatenate(seen.rows).astype(np.float64)
    extent = np.maximum(np.abs(seen.low), np.abs(seen.high)).astype(np.float64)
    taps = together.shape[0] // extent.size
    largest = np.abs(together).max(axis=1).reshape(extent.size, taps).max(axis=1)
    if not extent.max(initial=0) or not largest.max(initial=0):
        return None
    extent = np.maximum(extent / extent.max(), _FLOOR)
    largest = np.maximum(largest / largest.max(), _FLOOR)
    best, found = _GAIN * _noise(rows, together, np.ones(extent.size)), None
    for share in _SHARES:
        factors = extent**share / largest ** (1 - share)
        factors = (factors / np.exp(np.log(factors).mean())).astype(np.float32)
        noise = _noise(rows, together, factors.astype(np.float64))
        if noise < best:
            best, found = noise, factors
    return found


def _matrix(node: onnx.NodeProto, weight: np.ndarray) -> np.ndarray:
    """Return weights with inputs and taps along rows, and results along columns."""
    if node.op_type == "Conv":
        return weight.reshape(weight.shape[0], -1).T
    return weight.T if is_transposed(node) else weight


def _noise(rows: np.ndarray, weights: np.ndarray, factors: np.ndarray) -> float:
    """Return what rounding of rows and weights loses of their product; taps see the same rows."""
    taps = weights.shape[0] // factors.size
    x = rows / factors
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    step = (high - low) / _LEVELS or 1.0
    lost_x = (np.round(x / step) * step - x) * factors
    scaled = weights * np.repeat(factors, taps)[:, None]
    steps = np.maximum(np.abs(scaled).max(axis=0), 1e-30) / _SIGNED
    lost = (np.round(scaled / steps) * steps - scaled) / np.repeat(factors, taps)[:, None]
    total = 0.0
    for tap in range(taps):
        total += float(np.square(lost_x @ weights[tap::taps]).sum())
        total += float(np.square(rows @ lost[tap::taps]).sum())
    return total


def _scale_source(
    graph: onnx.GraphProto,
    name: str,
    source: _Source,
    factors: np.ndarray,
    links: Links,
) -> onnx.NodeProto:
    """Divide what products read by factors, and multiply their weights."""
    for each in source.products:
        weight = links.constants[each.input[1]].astype(np.float64)
        axis = 1 if each.op_type == "Conv" or is_transposed(each) else 0
        set_constant(graph, each.input[1], weight * factors.reshape(_along(weight.ndim, axis)))
    shape = _along(source.rank, source.axis)
    made = _node(graph, "Mul", [name], (1 / factors).reshape(shape), f"{name}_smooth")
    for product in source.products:
        end = product
        while end.input[0] != name:
            end = links.writer[end.input[0]]
        end.input[0] = made.output[0]
    first = next(i for i, each in enumerate(graph.node) if made.output[0] in each.input)
    graph.node.insert(first, made)
    return made


def _node(
    graph: onnx.GraphProto, operator: str, inputs: list[str], constant: np.ndarray, output: str
) -> onnx.NodeProto:
    """Return an operator with a constant."""
    name = add_constant(graph, f"{output}_{operator}_factor", constant)
    return helper.make_node(operator, [*inputs, name], [output], name=f"{output}_{operator}")


def _bias(graph: onnx.GraphProto, node: onnx.NodeProto, bias: np.ndarray) -> None:
    del node.input[2:]
    node.input.append(add_constant(graph, f"{node.output[0]}_equal_bias", bias))
