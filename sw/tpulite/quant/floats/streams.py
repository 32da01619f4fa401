"""Streams of a transformer: tensors that residual connections join, and their channels.

The channels of a stream are divided by one vector, which the products and normalizations around it
take into their constants. A channel that is a hundred times as large as the others then leaves them
most of their 8 bits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.quant.floats.axes import Axes, add_constant, set_constant
from tpulite.quant.floats.graph import PRODUCTS, Links, is_transposed
from tpulite.quant.floats.norm_forms import find_norms
from tpulite.quant.floats.norms import Norm, Steps
from tpulite.quant.floats.observe import Feed, live_tokens, padding_input, run_for
from tpulite.quant.floats.ranges import Range

_MOST = 127
"""Largest square of a divisor: it is a weight of squares."""

_USUAL = 0.75
"""Share of channels that are not divided."""

_KEPT = 48
"""Rows of each sample that are looked at."""

_VIEWS = ("Reshape", "Identity")


@dataclass(frozen=True)
class Streams:
    """What was done."""

    #: Ranges of normalizations and what they read.
    ranges: dict[str, Range] = field(default_factory=dict)
    #: Names of operators at the network's ends that stay in floats.
    inside: frozenset[str] = frozenset()
    #: Constants whose ranges are given: the end of that of each column.
    weights: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class _Stream:
    """Tensors with the same divisor, and whether what surrounds them can take it."""

    members: list[str]
    divisor: np.ndarray


def scale_streams(model: onnx.ModelProto, feeds: Sequence[Feed]) -> Streams:
    """Write normalizations as integer operators, and divide the channels of their streams.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place. All operators have names.
    feeds : sequence of mapping of str to ndarray
        Samples.
    """
    norms = find_norms(model)
    return _Writer(model, feeds, norms).write() if norms else Streams()


class _Writer:
    def __init__(self, model: onnx.ModelProto, feeds: Sequence[Feed], norms: list[Norm]) -> None:
        self._graph = model.graph
        self._links = Links(model.graph)
        self._axes = Axes(model, self._links)
        self._norms = {norm.y: norm for norm in norms}
        self._inner = {node.name for norm in norms for node in norm.nodes}
        self._front = {x for norm in norms for x in (norm.x, norm.y) if self._is_front(x)}
        self._stream: dict[str, _Stream] = {}
        self._rows = _observe(model, feeds, self._find())
        self._moved = {id(norm) for norm in norms if self._moves(norm)}

    # Which tensors are streams.

    def _find(self) -> list[str]:
        """Collect streams; return their tensors."""
        for norm in self._norms.values():
            for name in (norm.x, norm.y):
                if name not in self._stream and not (name == norm.x and name in self._front):
                    members = self._members(name)
                    stream = _Stream(members, np.ones(norm.gamma.size))
                    self._stream.update(dict.fromkeys(members, stream))
        return [*self._stream]

    def _members(self, name: str) -> list[str]:
        found, todo = [name], [name]
        while todo:
            now = todo.pop()
            writer = None if now in self._front else self._links.writer.get(now)
            nodes = [*self._links.readers.get(now, []), *([writer] if writer is not None else [])]
            for node in nodes:
                for other in self._joined(node, now):
                    if other not in found and not self._is_front(node.output[0]):
                        found.append(other)
                        todo.append(other)
        return found

    def _joined(self, node: onnx.NodeProto, name: str) -> list[str]:
        """Return the tensors that an addition or a view has besides one, if it joins them."""
        ends = [x for x in (*node.input, *node.output) if x not in self._links.constants]
        if node.op_type in _VIEWS:
            last = self._axes.rank(node.output[0]) - 1
            kept = last >= 0 and self._axes.before(node, last) == self._axes.rank(node.input[0]) - 1
            return [x for x in ends if x != name] if kept else []
        shapes = {tuple(self._axes.shape(x)) for x in ends}
        return [x for x in ends if x != name] if node.op_type == "Add" and len(shapes) == 1 else []

    def _is_front(self, name: str) -> bool:
        """Tell whether a tensor depends on no product: the CPU computes it from the inputs."""
        return all(each.op_type not in PRODUCTS for each in self._links.before(name))

    # What surrounds them.

    def write(self) -> Streams:
        """Change the graph."""
        streams = list({id(each): each for each in self._stream.values()}.values())
        for stream in streams:
            if all(self._takes(name) for name in stream.members):
                stream.divisor = self._divisor(stream)
        for norm in self._norms.values():
            if id(norm) in self._moved:
                self._shift(norm)
        ends = [self._scale(stream) for stream in streams]
        divided = {x for stream in streams if (stream.divisor != 1).any() for x in stream.members}
        moved = {norm.y for norm in self._norms.values() if id(norm) in self._moved}
        kept = self._links.outputs | {x for x in self._front if x not in self._norms}
        ranges: dict[str, Range] = {}
        weights: dict[str, list[float]] = {}
        for norm in self._norms.values():
            if norm.x in self._front:
                self._scale_front(norm)
                continue
            steps = self._steps(norm)
            ranges |= steps.ranges | self._addend_ranges(norm, steps)
            weights |= steps.weights()
            self._replace(norm.nodes, steps.nodes(self._graph))
        names = {x: f"{x}/divided" for x in (divided | moved) - kept}
        self._rename(names)
        ranges = {names.get(x, x): ends for x, ends in ranges.items()}
        return Streams(ranges, frozenset(name for each in ends for name in each), weights)

    def _addend_ranges(self, norm: Norm, steps: Steps) -> dict[str, Range]:
        """Choose the ranges of results of products that are added up before a normalization."""
        writer = self._links.writer.get(norm.x)
        names = [] if writer is None or writer.op_type != "Add" else [*writer.input]
        if any(x not in self._rows for x in names):
            return {}
        ranges = {}
        for name, other in zip(names, names[::-1], strict=True):
            before = self._links.writer.get(name)
            while before is not None and before.op_type in _VIEWS:
                before = self._links.writer.get(before.input[0])
            if self._is_product(before) and self._links.only_reader(name) is not None:
                rest = self._of(other)  # the product adds what a normalization does not
                ranges[name] = steps.addend_range(self._rows[norm.x] - rest, rest)
        return ranges

    def _rename(self, names: Mapping[str, str]) -> None:
        """Give tensors that hold other numbers now other names."""
        for node in self._graph.node:
            for ends in (node.input, node.output):
                for index, each in enumerate(ends):
                    ends[index] = names.get(each, each)
        del self._graph.value_info[:]

    def _takes(self, name: str) -> bool:
        """Tell whether everything at a tensor can take a divisor."""
        writer, norm = self._links.writer.get(name), self._norms.get(name)
        if norm is not None and name in self._front and not norm.places:
            return False
        written = name in self._front or norm is not None or self._within(writer, name)
        written = written or self._is_product(writer)
        return written and all(
            self._within(node, name) or self._is_product(node) or node.name in self._inner
            for node in self._links.readers.get(name, [])
        )

    def _within(self, node: onnx.NodeProto | None, name: str) -> bool:
        """Tell whether an operator joins tensors of a stream, or adds a constant to one."""
        if node is None:
            return False
        constants = [x for x in node.input if x in self._links.constants and node.op_type == "Add"]
        alone = all(len(self._links.readers[x]) == 1 for x in constants)
        return alone and bool(self._joined(node, name))

    def _is_product(self, node: onnx.NodeProto | None) -> bool:
        """Tell whether an operator multiplies with a matrix of its own."""
        return node is not None and node.op_type != "Conv" and self._links.is_product(node)

    def _divisor(self, stream: _Stream) -> np.ndarray:
        """Return the divisor of a stream: roots of integers, 1 for most channels."""
        largest = np.ones(stream.divisor.size)
        for name in stream.members:
            extent = np.abs(self._of(name)).max(axis=0)
            usual = float(np.quantile(extent, _USUAL))
            if usual > 0:
                largest = np.maximum(largest, extent / usual)
        return np.sqrt(np.clip(np.round(largest**2), 1, _MOST))

    def _of(self, name: str) -> np.ndarray:
        """Return rows of a tensor, without the addends that others take from a normalization."""
        norm = self._norms.get(name)
        return (
            self._rows[name] - norm.beta if norm and id(norm) in self._moved else self._rows[name]
        )

    def _moves(self, norm: Norm) -> bool:
        """Tell whether what reads a normalization can take its addends as biases."""
        if norm.y in self._front or not norm.beta.any():
            return False
        return all(
            (self._is_product(node) and len(node.input) > 2)
            or self._bias_of_sum(node, name) is not None
            for node, name in self._behind(norm.y)
        )

    def _behind(self, name: str) -> Iterator[tuple[onnx.NodeProto, str]]:
        """Yield what reads a tensor, behind views, and which tensor it reads."""
        for node in self._links.readers.get(name, []):
            if node.op_type in _VIEWS and self._joined(node, name):
                yield from self._behind(node.output[0])
            else:
                yield node, name

    def _bias_of_sum(self, node: onnx.NodeProto, name: str) -> onnx.NodeProto | None:
        """Return the product that an addition reads besides a tensor, if nothing else does."""
        if node.op_type != "Add" or not self._joined(node, name):
            return None
        other = next((x for x in node.input if x != name), "")
        while self._links.only_reader(other) is not None:
            writer = self._links.writer.get(other)
            if self._is_product(writer):
                return writer if writer is not None and len(writer.input) > 2 else None
            if writer is None or writer.op_type not in _VIEWS:
                return None
            other = writer.input[0]
        return None

    # Changing it.

    def _scale(self, stream: _Stream) -> list[str]:
        """Divide a stream: what writes it by its divisor, what reads it times that."""
        divisor, ends = stream.divisor, []
        for name in stream.members:
            writer = self._links.writer.get(name)
            if self._is_product(writer) and writer is not None and (divisor != 1).any():
                self._columns(writer, 1 / divisor)
            norm = self._norms.get(name)
            moved = norm.beta if norm and id(norm) in self._moved else None
            for node in self._links.readers.get(name, []):
                if self._is_product(node):
                    self._rows_of(node, divisor)
            if writer is not None and writer.op_type == "Add" and (divisor != 1).any():
                for constant in (x for x in writer.input if x in self._links.constants):
                    self._set(constant, self._value(constant) / divisor)
            if name in self._links.outputs and (moved is not None or (divisor != 1).any()):
                ends += self._restore(name, divisor, moved)
            if name in self._front and norm is None:
                ends += self._divide(name, divisor)
        return ends

    def _shift(self, norm: Norm) -> None:
        """Add to the biases behind a normalization what its addends would have added."""
        for node, name in self._behind(norm.y):
            if self._is_product(node):
                self._add_bias(node, norm.beta @ self._matrix(node))
            else:
                product = self._bias_of_sum(node, name)
                assert product is not None
                self._add_bias(product, norm.beta)

    def _matrix(self, node: onnx.NodeProto) -> np.ndarray:
        weight = self._value(node.input[1])
        return weight.T if is_transposed(node) else weight

    def _rows_of(self, node: onnx.NodeProto, factor: np.ndarray) -> None:
        weight = self._value(node.input[1])
        shaped = factor[None] if is_transposed(node) else factor[:, None]
        self._set(node.input[1], weight * shaped)

    def _columns(self, node: onnx.NodeProto, factor: np.ndarray) -> None:
        weight = self._value(node.input[1])
        self._set(
            node.input[1], weight * (factor[:, None] if is_transposed(node) else factor[None])
        )
        if len(node.input) > 2 and node.input[2]:
            self._set(node.input[2], self._value(node.input[2]) * factor)

    def _add_bias(self, node: onnx.NodeProto, more: np.ndarray) -> None:
        self._set(node.input[2], self._value(node.input[2]) + more)

    def _value(self, name: str) -> np.ndarray:
        tensor = next(each for each in self._graph.initializer if each.name == name)
        return numpy_helper.to_array(tensor).astype(np.float64)

    def _set(self, name: str, value: np.ndarray) -> None:
        set_constant(self._graph, name, value)

    def _scale_front(self, norm: Norm) -> None:
        """Divide a normalization that the CPU computes."""
        divisor = self._stream[norm.y].divisor
        values = {"factor": norm.gamma, "addend": norm.beta}
        for (node, index), (what, value) in zip(norm.places, values.items(), strict=False):
            name = add_constant(self._graph, f"{norm.y}_{what}_divided", value / divisor)
            del node.input[index : index + 1]
            node.input.insert(index, name)

    def _steps(self, norm: Norm) -> Steps:
        divisor, others = (self._stream[x].divisor for x in (norm.x, norm.y))
        moved = id(norm) in self._moved
        return Steps(norm, divisor, others, self._rows[norm.x], moved=moved)

    def _replace(self, nodes: list[onnx.NodeProto], made: list[onnx.NodeProto]) -> None:
        place = list(self._graph.node).index(nodes[-1])
        for each in reversed(made):
            self._graph.node.insert(place, each)
        for node in nodes:
            self._graph.node.remove(node)

    def _restore(self, name: str, divisor: np.ndarray, beta: np.ndarray | None) -> list[str]:
        """Make an output of a stream's tensor what it was."""
        inner = f"{name}_stream"
        self._rename({name: inner})
        made = [
            self._constant_node(
                "Mul", inner, divisor, f"{name}_restored" if beta is not None else name
            )
        ]
        if beta is not None:
            made.append(self._constant_node("Add", f"{name}_restored", beta, name))
        self._graph.node.extend(made)
        for norm in self._norms.values():
            norm.x, norm.y = (inner if x == name else x for x in (norm.x, norm.y))
        self._rows[inner], self._stream[inner] = self._rows[name], self._stream[name]
        return [node.name for node in made]

    def _divide(self, name: str, divisor: np.ndarray) -> list[str]:
        """Divide what the CPU computes."""
        if not (divisor != 1).any():
            return []
        made = self._constant_node("Mul", name, 1 / divisor, f"{name}_divided")
        norms = [norm for norm in self._norms.values() if norm.x in self._front]
        front = {node.name for norm in norms for node in norm.nodes}
        for node in self._links.readers[name]:
            if node.name not in front:
                for index, each in enumerate(node.input):
                    node.input[index] = made.output[0] if each == name else each
        places = (i + 1 for i, node in enumerate(self._graph.node) if name in node.output)
        self._graph.node.insert(next(places, 0), made)
        return [made.name]

    def _constant_node(self, op: str, x: str, value: np.ndarray, y: str) -> onnx.NodeProto:
        name = add_constant(self._graph, f"{y}_{op}_constant", value)
        return helper.make_node(op, [x, name], [y], name=f"{y}_{op}")


def _observe(
    model: onnx.ModelProto, feeds: Sequence[Feed], names: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return rows of tensors, those of padding left out: float64 [rows, C]."""
    mask, rng = padding_input(model.graph), np.random.default_rng(0)
    rows: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for feed, values in zip(feeds, run_for(names, model, feeds, "ENABLE_BASIC"), strict=True):
        seed = rng.integers(1 << 32)
        for name, value in values.items():
            live = live_tokens(value, feed, mask).reshape(-1, value.shape[-1])
            # Of tensors with as many rows the same ones.
            chosen = np.random.default_rng(seed).permutation(len(live))[:_KEPT]
            rows[name].append(live[np.sort(chosen)].astype(np.float64))
    return {name: np.concatenate(each) for name, each in rows.items()}
