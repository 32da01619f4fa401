"""Which activations stay in floats, because 8 bits of them lose too much of an output."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tpulite.frontend.onnx.library import open_session
from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.graph import ROUNDED, Links
from tpulite.quant.floats.observe import Feed, level_of, live_rows, padding_input
from tpulite.quant.quality import OutputSums

_JUDGED, _SEARCHED, _WEIGHED = 32, 8, 2
"""Samples on which a file is judged, on which roundings are tried, and on which each alone is."""

_KEY = "tpulite.floats"
"""Entry of a file's metadata: activations that stayed in floats, one a line."""

Outputs = Mapping[str, np.ndarray]

_Sample = TypeVar("_Sample")


class Judge:
    """Outputs of the float network on a few samples, which those of others are compared with.

    Parameters
    ----------
    model : ModelProto
        The float network.
    feeds : sequence of mapping of str to ndarray
        All samples.
    """

    def __init__(self, model: onnx.ModelProto, feeds: Sequence[Feed]) -> None:
        self.feeds = spread(feeds, _JUDGED)
        self._mask = padding_input(model.graph)
        run = _opened(model.SerializeToString())
        self._wanted = [run(feed) for feed in self.feeds]

    def fewer(self, most: int) -> "Judge":
        """Return a judge with at most so many of the samples."""
        other = copy(self)
        other.feeds, other._wanted = spread(self.feeds, most), spread(self._wanted, most)
        return other

    def judge(self, found: Iterable[Outputs]) -> tuple[float, float]:
        """Return the least cosine and the least signal to noise of all outputs."""
        sums = {name: OutputSums() for name in self._wanted[0]}
        for feed, wanted, other in zip(self.feeds, self._wanted, found, strict=True):
            for name, each in sums.items():
                real, value = (live_rows(x[name], feed, self._mask) for x in (wanted, other))
                each.add(real, value, classes=False)
        results = [each.result(name) for name, each in sums.items()]
        return min(x.cosine for x in results), min(x.decibels for x in results)

    def of_file(self, data: bytes) -> tuple[float, float]:
        """Judge a file."""
        return self.judge(map(_opened(data), self.feeds))


def leave_floats(data: bytes, judge: Judge, least: float) -> bytes:
    """Leave the activations that lose most in floats, as few as the outputs need.

    Parameters
    ----------
    data : bytes
        The QDQ file; it keeps Relu and Clip, for no rounding may clip in their place.
    judge : Judge
        What the outputs should be.
    least : float
        Cosine that each output must have.

    Returns
    -------
    bytes
        The file; its metadata name what stayed in floats.
    """
    switches = Switches(data)
    costs = switches.costs(spread(judge.feeds, _WEIGHED))
    order = sorted(costs, key=lambda group: -costs[group])
    judge = judge.fewer(_SEARCHED)
    few, many = 0, len(order)
    while few < many:
        middle = (few + many) // 2
        rounded = order[middle:]
        found = (switches.run(feed, rounded) for feed in judge.feeds)
        if judge.judge(found)[0] >= least:
            many = middle
        else:
            few = middle + 1
    return _marked(data, order[:few])


def floats_of(model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the activations that :func:`leave_floats` left."""
    found = next((x.value for x in model.metadata_props if x.key == _KEY), "")
    return tuple(found.splitlines())


def _marked(data: bytes, groups: Sequence[str]) -> bytes:
    """Return a file without some roundings, named in its metadata."""
    before = onnx.load_model_from_string(data)
    chosen = {*groups}
    names = (
        node.input[0].removesuffix(ROUNDED)
        for node in before.graph.node
        if node.op_type == "QuantizeLinear" and node.input[1] in chosen
    )
    model = onnx.load_model_from_string(remove_roundings(data, groups))
    entry = model.metadata_props.add()
    entry.key, entry.value = _KEY, "\n".join(names)
    return model.SerializeToString()


def spread(feeds: Sequence[_Sample], most: int) -> list[_Sample]:
    """Return at most so many samples, evenly spread."""
    places = np.linspace(0, len(feeds) - 1, min(most, len(feeds)))
    return [feeds[int(place)] for place in places]


def _opened(data: bytes) -> Callable[[Feed], Outputs]:
    session = open_session(data, level_of(onnx.load_model_from_string(data)))
    names = [output.name for output in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, dict(feed)), strict=True))


_FLAGS = "tpulite_rounded"


class Switches:
    """Runs a QDQ file with some activations rounded, and the others not.

    Parameters
    ----------
    data : bytes
        The file. Activations that share a scale are switched together; weights stay rounded.

    Attributes
    ----------
    groups : list of str
        Scales of activations, in the order of the file.
    """

    def __init__(self, data: bytes) -> None:
        model = onnx.load_model_from_string(data)
        roundings = _roundings(model.graph)
        self.groups = list(dict.fromkeys(quantize.input[1] for quantize, _ in roundings))
        graph = model.graph
        extent = [len(self.groups)]
        graph.input.append(helper.make_tensor_value_info(_FLAGS, TensorProto.BOOL, extent))
        nodes: list[onnx.NodeProto] = []
        for index, group in enumerate(self.groups):
            place = f"{group}_flag_index"
            graph.initializer.append(numpy_helper.from_array(np.array(index), place))
            nodes.append(helper.make_node("Gather", [_FLAGS, place], [f"{group}_flag"]))
        pairs = {id(dequantize): quantize for quantize, dequantize in roundings}
        for node in graph.node:
            nodes.append(node)
            if id(node) in pairs:
                quantize, rounded = pairs[id(node)], f"{node.output[0]}_rounded"
                choice = [f"{quantize.input[1]}_flag", rounded, quantize.input[0]]
                nodes.append(helper.make_node("Where", choice, [node.output[0]]))
                node.output[0] = rounded
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(nodes)
        del graph.value_info[:]
        self._session = open_session(model.SerializeToString(), "ENABLE_EXTENDED")
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, feed: Feed, rounded: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the outputs with only some groups rounded."""
        chosen = {*rounded}
        flags = np.array([group in chosen for group in self.groups], bool)
        values = self._session.run(self._outputs, {**feed, _FLAGS: flags})
        return dict(zip(self._outputs, values, strict=True))

    def costs(self, feeds: Sequence[Feed]) -> dict[str, float]:
        """Return the noise that each group makes alone, as a share of the outputs' signal."""
        costs = dict.fromkeys(self.groups, 0.0)
        for feed in feeds:
            real = self.run(feed, [])
            for group in self.groups:
                costs[group] += _noise(real, self.run(feed, [group]))
        return {group: cost / len(feeds) for group, cost in costs.items()}


def _noise(real: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> float:
    """Return the largest share of noise of all float outputs."""
    shares = [0.0]
    for name, value in real.items():
        if value.dtype.kind == "f":
            wanted, other = value.astype(np.float64), found[name].astype(np.float64)
            signal = float(np.square(wanted).sum())
            shares.append(float(np.square(other - wanted).sum()) / max(signal, 1e-30))
    return max(shares)


def _roundings(graph: onnx.GraphProto) -> list[tuple[onnx.NodeProto, onnx.NodeProto]]:
    """Return QuantizeLinear and DequantizeLinear of activations, pair by pair."""
    writer = {name: node for node in graph.node for name in node.output}
    pairs = []
    for node in graph.node:
        before = writer.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if before is not None and before.op_type == "QuantizeLinear":
            pairs.append((before, node))
    return pairs


def remove_roundings(data: bytes, groups: Sequence[str]) -> bytes:
    """Return a QDQ file in which activations with some scales stay floats."""
    model = onnx.load_model_from_string(data)
    graph, chosen = model.graph, {*groups}
    renamed: dict[str, str] = {}
    gone: set[int] = set()
    outputs = {value.name for value in graph.output}
    pairs = _roundings(graph)  # kept: a node's identity lasts as long as its object
    for quantize, dequantize in pairs:
        if quantize.input[1] in chosen and dequantize.output[0] not in outputs:
            renamed[dequantize.output[0]] = quantize.input[0]
            gone |= {id(quantize), id(dequantize)}
    for node in graph.node:
        for index, name in enumerate(node.input):
            while name in renamed:
                name = renamed[name]
            node.input[index] = name
    kept = [node for node in graph.node if id(node) not in gone]
    del graph.node[:]
    graph.node.extend(kept)
    _restore_weights(graph)
    return model.SerializeToString()


def _restore_weights(graph: onnx.GraphProto) -> None:
    """Give products that read floats weights of floats: sessions would round what they read."""
    links = Links(graph)
    for node in graph.node:
        reads = [links.writer.get(x) for x in node.input[:2]]
        rounded = [x is not None and x.op_type == "DequantizeLinear" for x in reads]
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul") or rounded[0]:
            continue
        for index, name in enumerate(node.input):
            dequantize = links.writer.get(name)
            if dequantize is None or dequantize.op_type != "DequantizeLinear":
                continue
            if all(x in links.constants for x in dequantize.input):
                values = _dequantized(dequantize, links)
                node.input[index] = f"{name}_float"
                if all(each.name != node.input[index] for each in graph.initializer):
                    graph.initializer.append(numpy_helper.from_array(values, node.input[index]))
    read = links.outputs | {name for node in graph.node for name in node.input}
    kept = [
        node for node in graph.node if node.op_type != "DequantizeLinear" or node.output[0] in read
    ]
    del graph.node[:]
    graph.node.extend(kept)


def _dequantized(node: onnx.NodeProto, links: Links) -> np.ndarray:
    """Return the numbers of a constant."""
    values, scale, *zero = (links.constants[x] for x in node.input)
    shape = [1] * values.ndim
    if scale.size > 1:
        shape[attributes_of(node).get("axis", 1)] = -1
    whole = values.astype(np.int32)
    if zero:
        whole = whole - zero[0].astype(np.int32).reshape(shape if zero[0].size > 1 else ())
    return (whole * scale.reshape(shape if scale.size > 1 else ())).astype(np.float32)
