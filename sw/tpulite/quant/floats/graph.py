"""Who writes and reads the tensors of an ONNX graph."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper

from tpulite.frontend.onnx.read.attributes import attributes_of, names_read

PRODUCTS = frozenset({"MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose"})
"""Operators that multiply tensors."""

MOVING = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Flatten"})
"""Operators of one tensor that only move numbers."""

_ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention")
"""Operators of a whole attention."""

ROUNDED = "_QuantizeLinear_Input"
"""What ONNX Runtime's quantizer appends to the name of a graph's output before it is rounded."""


@dataclass
class Links:
    """A graph, its constants and its edges; valid until the graph is changed."""

    graph: onnx.GraphProto
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    writer: dict[str, onnx.NodeProto] = field(default_factory=dict)
    readers: dict[str, list[onnx.NodeProto]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.constants = {x.name: numpy_helper.to_array(x) for x in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            self.writer.update(dict.fromkeys(node.output, node))
            inside = names_read(node).difference(node.input)  # by graphs in it, such as branches
            for name in (*node.input, *sorted(inside)):
                self.readers[name].append(node)
        self.outputs = {value.name for value in self.graph.output}

    def only_reader(self, name: str) -> onnx.NodeProto | None:
        """Return the one operator that reads a tensor; None if there are others, or an output."""
        found = self.readers.get(name, [])
        return found[0] if len(found) == 1 and name not in self.outputs else None

    def is_product(self, node: onnx.NodeProto) -> bool:
        """Tell whether an operator multiplies with weights, which it alone reads, as its bias."""
        if node.op_type not in ("Conv", "Gemm", "MatMul") or len(node.input) < 2:
            return False
        weight = self.constants.get(node.input[1])
        if weight is None or attributes_of(node).get("transA", 0):
            return False
        constants = [x for x in node.input[1:] if x]
        alone = all(len(self.readers[x]) == 1 and x in self.constants for x in constants)
        return alone and (node.op_type == "Conv" or weight.ndim == 2)

    def scalar(self, name: str) -> float | None:
        """Return the number of a constant of one number."""
        value = self.constants.get(name)
        return float(value.item()) if value is not None and value.size == 1 else None

    def before(self, name: str) -> list[onnx.NodeProto]:
        """Return all operators on which a tensor depends, the nearest first."""
        found: dict[int, onnx.NodeProto] = {}
        todo = [name]
        while todo:
            node = self.writer.get(todo.pop(0))
            if node is not None and id(node) not in found:
                found[id(node)] = node
                todo += node.input
        return list(found.values())


def replace_node(
    graph: onnx.GraphProto, node: onnx.NodeProto, made: Sequence[onnx.NodeProto]
) -> None:
    """Put operators in the place of another one."""
    place = list(graph.node).index(node)
    graph.node.remove(node)
    for each in reversed(made):
        graph.node.insert(place, each)


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Put operators behind those whose results they read, in bodies, too; others stay in order."""
    missing = {name for node in graph.node for name in node.output if name}
    done: list[onnx.NodeProto] = []
    todo = list(graph.node)
    while todo:
        later = []
        for node in todo:
            if missing.isdisjoint(names_read(node).difference(node.output)):
                done.append(node)
                missing.difference_update(node.output)
            else:
                later.append(node)
        if len(later) == len(todo):  # names inside bodies are those of others
            done += later
            break
        todo = later
    del graph.node[:]
    graph.node.extend(done)


def is_transposed(product: onnx.NodeProto) -> bool:
    """Tell whether weights have the channels of the result along rows."""
    return bool(attributes_of(product).get("transB", 0))


def is_square(node: onnx.NodeProto, links: Links) -> bool:
    """Tell whether an operator squares a tensor."""
    if node.op_type == "Pow":
        return links.scalar(node.input[1]) == 2
    return node.op_type == "Mul" and node.input[0] == node.input[1]


def has_attention(graph: onnx.GraphProto) -> bool:
    """Tell whether a product depends on a softmax, which may be inside an operator."""
    if any(node.op_type in _ATTENTION for node in graph.node):
        return True
    made = {name for node in graph.node if node.op_type == "Softmax" for name in node.output}
    for node in graph.node:
        if made.intersection(node.input):
            if node.op_type in PRODUCTS:
                return True
            made.update(node.output)
    return False
