"""Masks of attention: numbers that only say "not here", on their way into a softmax."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.quant.floats.axes import add_constant
from tpulite.quant.floats.graph import MOVING, Links
from tpulite.quant.floats.observe import Observed
from tpulite.quant.floats.ranges import Range, attention_range

FAR = -500.0
"""No score is as low as that, and any mask is lower: -1e4, -1e9, -3.4e38, -inf."""

_PRODUCTS = ("MatMul", "Gemm", "Einsum", "Conv")


@dataclass(frozen=True)
class Masks:
    """What was found."""

    ranges: dict[str, Range]  #: Ranges of scores, their sums with masks, and the clamped masks.
    inside: frozenset[str]  #: Names of operators that only make masks; they stay in floats.


def clamp_masks(model: onnx.ModelProto, seen: Observed) -> Masks:
    """Clamp what is added to scores, or replaces them, to what softmax can tell from nothing.

    The graph is searched from each softmax backwards: masks are operands of Add and Where that
    depend on no product and hold numbers below any score.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place.
    seen : Observed
        What its tensors held.
    """
    search = _Search(model.graph, seen)
    for node in list(model.graph.node):
        if node.op_type == "Softmax" and node.input[0] in seen.scores:
            search.visit(node.input[0], attention_range(seen.scores[node.input[0]]))
    search.insert()
    _drop_guards(model.graph)
    return Masks(search.ranges, frozenset(search.inside))


def _drop_guards(graph: onnx.GraphProto) -> None:
    """Take out what replaces softmax of rows that are masked as a whole: clamped, none is NaN."""
    links = Links(graph)
    for node in [x for x in graph.node if x.op_type == "Where"]:
        asked = links.writer.get(node.input[0])
        softmax = links.writer.get(node.input[2])
        if asked is None or softmax is None or asked.op_type != "IsNaN":
            continue
        if softmax.op_type == "Softmax" and asked.input[0] == node.input[2]:
            for reader in links.readers[node.output[0]]:
                for index, name in enumerate(reader.input):
                    reader.input[index] = node.input[2] if name == node.output[0] else name
            graph.node.remove(node)
            if links.only_reader(asked.output[0]) is not None:
                graph.node.remove(asked)


def narrow_masks(model: onnx.ModelProto) -> None:
    """Take out conjunctions with constants that are always true: they only repeat a mask.

    A mask of one row is then added to all rows as it is.
    """
    graph = model.graph
    links = Links(graph)
    for node in [x for x in graph.node if x.op_type == "And"]:
        constant = next((x for x in node.input if x in links.constants), None)
        other = next((x for x in node.input if x != constant), None)
        readers = links.readers.get(node.output[0], [])
        if constant is None or other is None or not links.constants[constant].all():
            continue
        if node.output[0] in links.outputs or any(x.op_type != "Where" for x in readers):
            continue
        for reader in readers:
            reader.input[0] = other if reader.input[0] == node.output[0] else reader.input[0]
        graph.node.remove(node)
        del graph.value_info[:]


def scores_of(graph: onnx.GraphProto) -> set[str]:
    """Return the tensors that softmax reads, moved or not."""
    links = Links(graph)
    found = {node.input[0] for node in graph.node if node.op_type == "Softmax"}
    for name in [*found]:
        while (node := links.writer.get(name)) is not None and node.op_type in MOVING:
            name = node.input[0]
            found.add(name)
    return found


class _Search:
    """Masks of one graph."""

    def __init__(self, graph: onnx.GraphProto, seen: Observed) -> None:
        self._graph, self._seen, self._links = graph, seen, Links(graph)
        self._new: dict[str, str] = {}
        self._lows: dict[str, float] = {}
        self.ranges: dict[str, Range] = {}
        self.inside: set[str] = set()

    def visit(self, name: str, limits: Range) -> None:
        """Clamp masks of scores that need a range."""
        self._give(name, limits)
        node = self._links.writer.get(name)
        while node is not None and node.op_type in ("Reshape", "Identity", "Squeeze", "Unsqueeze"):
            self._give(node.input[0], limits)
            node = self._links.writer.get(node.input[0])
        if node is None or node.op_type not in ("Add", "Where"):
            return
        operands = list(node.input)[-2:]
        scores = [x for x in operands if self._is_score(x)]
        if len(scores) != 1:
            return
        (other,) = (x for x in operands if x != scores[0])
        if self._ends(other)[0] < FAR:
            self._clamp(node, other, scores[0], limits)
        elif node.op_type == "Add" and self._ends(scores[0])[0] >= FAR:
            return  # a bias of positions, whose scores have a range of their own
        self.visit(scores[0], limits)

    def _give(self, name: str, limits: Range) -> None:
        """Give scores a range, if nothing but the softmax needs them."""
        if self._links.only_reader(name) is not None:
            self.ranges[name] = limits

    def insert(self) -> None:
        """Make the clamped masks, before the first operator that reads them."""
        for mask, low in self._lows.items():
            name, constant = self._new[mask], self._links.constants.get(mask)
            top = self._ends(mask)[1]
            self.ranges[name] = low, max(0.0, top)
            if constant is not None:
                value = np.maximum(constant, np.asarray(low, constant.dtype))
                self._graph.initializer.append(numpy_helper.from_array(value, name))
                continue
            self.inside |= {each.name for each in self._links.before(mask)}
            bound = add_constant(self._graph, f"{mask}_lowest", low)
            place = next(i for i, x in enumerate(self._graph.node) if name in x.input)
            maximum = helper.make_node("Max", [mask, bound], [name], name=name)
            self._graph.node.insert(place, maximum)

    def _clamp(self, node: onnx.NodeProto, mask: str, scores: str, limits: Range) -> None:
        low = limits[0]
        if node.op_type == "Add":
            low -= max(limits[1], self._ends(scores)[1])
        name = self._new.setdefault(mask, f"{mask}_clamped")
        self._lows[mask] = min(low, self._lows.get(mask, low))
        node.input[next(i for i, x in enumerate(node.input) if x == mask)] = name

    def _is_score(self, name: str) -> bool:
        return any(node.op_type in _PRODUCTS for node in self._links.before(name))

    def _ends(self, name: str) -> Range:
        """Return the lowest and the highest number of a tensor; zeros if they are not known."""
        constant = self._links.constants.get(name)
        if constant is not None:
            return (float(constant.min()), float(constant.max())) if constant.size else (0.0, 0.0)
        seen = self._seen.tensors.get(name)
        return (0.0, 0.0) if seen is None else (seen.low, seen.high)
