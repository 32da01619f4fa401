"""Where operators run: networks of one operator are drawn, and their nodes lowered one by one."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from tpulite.frontend.onnx.file import RULES, load_onnx
from tpulite.frontend.onnx.read.expand import EXPANSIONS
from tpulite.frontend.tflite.file import load_tflite
from tpulite.frontend.tflite.operators import OPERATIONS
from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import (
    Affine,
    Concat,
    Conv,
    DepthToSpace,
    Depthwise,
    Elementwise,
    Layer,
    Lut,
    MatMul,
    Pad,
    Pick,
    Pool,
    Reshape,
    Softmax,
    Transpose,
    TransposedConv,
)
from tpulite.graph.passes.fold_space_to_batch import fold_space_to_batch
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.network import lower_node
from tpulite.quant.own import is_own
from tpulite.quant.tensors import UnsupportedError
from tpulite_testing.drawn import onnx_cases, operator_cases
from tpulite_testing.drawn.movement_cases import MOVEMENT, movement_case
from tpulite_testing.drawn.onnx_nodes import NODES, node_case
from tpulite_testing.drawn.tflite_forms import FORMS, form_case

__all__ = ["Answer", "Probe", "file_names", "quantized_forms"]

PLACES: dict[str, tuple[type[Layer], ...]] = {
    "matrix unit": (Conv, Depthwise, MatMul, TransposedConv),
    "vector path": (Affine, Elementwise, Lut, Pool, Softmax),
    "data movement": (Concat, DepthToSpace, Pad, Pick, Transpose),
    "view": (Reshape,),
}

OTHERS = {
    "tflite": (
        *("BATCH_MATMUL", "CAST", "DIV", "L2_NORMALIZATION", "LOG_SOFTMAX"),
        *("SHAPE", "SVDF", "SQUARE"),
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
    ),
    "onnx": ("Cast", "InstanceNormalization", "LayerNormalization", "Where"),
}
"""Operators that users look for, wherever they run."""

_AROUND = ("QuantizeLinear", "DequantizeLinear")
"""What stands around an operator of ONNX."""


@dataclass
class Answer:
    """What became of the cases of an operator."""

    #: Where the machine computes it, in the order of :data:`PLACES`.
    places: dict[str, None] = field(default_factory=dict)
    operators: set[str] = field(default_factory=set)  #: What the nodes are called in graphs.
    #: Operator of the graph, and why it is not the machine's.
    reasons: set[tuple[str, str]] = field(default_factory=set)
    #: Files in which it is all the machine's, in which numpy can compute the rest, and all files.
    machine: int = 0
    own: int = 0
    total: int = 0

    @property
    def free(self) -> bool:
        """Whether graphs have no node for it."""
        return self.machine > 0 and not self.operators

    def __str__(self) -> str:
        """Return the cell of a table."""
        if not self.total:
            return "library"
        if self.machine == self.total:
            return "yes"
        if self.machine:
            return f"{self.machine} of {self.total}"
        return "numpy" if self.own == self.total else "library"


def file_names(file_format: str) -> list[str]:
    """Return the operators of files that graphs know, sorted."""
    known = OPERATIONS if file_format == "tflite" else RULES
    return sorted({*known, *OTHERS[file_format]})


def quantized_forms() -> dict[str, str]:
    """Return the operators with a quantization of their own, and what each is between floats."""
    return {name: name.removeprefix("Q").removeprefix("Linear") for _, name in EXPANSIONS}


class Probe:
    """Answers for all operators; networks are drawn once.

    Parameters
    ----------
    count : int
        Cases of each operator.
    """

    def __init__(self, count: int = 12) -> None:
        self.count = count
        self.graphs = {"tflite": list(_tflite(count)), "onnx": list(_onnx(count))}

    def answer(self, file_format: str, name: str, exactness: Exactness) -> Answer:
        """Return what becomes of an operator of a file."""
        return self._answers(file_format, exactness).get(name, Answer())

    @cache  # noqa: B019 - there is one
    def _answers(self, file_format: str, exactness: Exactness) -> dict[str, Answer]:
        answers: dict[str, Answer] = defaultdict(Answer)
        forms = quantized_forms()
        for wanted, graph in self.graphs[file_format]:
            nodes: dict[str, list[Node]] = {wanted: []} if wanted else defaultdict(list)
            for node in graph.nodes:
                source = forms.get(node.source, node.source)
                if wanted == "Transpose" and graph.tensors[node.inputs[0]].dtype == "int8":
                    source = source or wanted  # it may change places with others
                if source == wanted or (not wanted and source not in _AROUND):
                    nodes[source].append(node)
            for source, group in nodes.items():
                _count(answers[source], group, graph, exactness)
        for answer in answers.values():
            found = [place for place in PLACES if place in answer.places]
            answer.places = dict.fromkeys(found[:-1] if found[1:] and "view" in found else found)
        return answers


def _count(answer: Answer, nodes: list[Node], graph: Graph, exactness: Exactness) -> None:
    """Add the nodes that an operator of a file has become."""
    answer.total += 1
    machine = own = True
    for node in nodes:
        context = GraphContext(graph, exactness)
        answer.operators.add(node.op)
        try:
            lower_node(node, context)
        except UnsupportedError as error:
            machine, own = False, own and is_own(node, graph, exactness)
            answer.reasons.add((node.op, str(error)))
        kinds = tuple(kind for every in PLACES.values() for kind in every)
        assert all(isinstance(layer, kinds) for layer in context.layers), context.layers
        for place, kinds in PLACES.items():
            if any(isinstance(layer, kinds) for layer in context.layers):
                answer.places[place] = None
    answer.machine += machine
    answer.own += own


def _tflite(count: int) -> Iterator[tuple[str, Graph]]:
    """Yield networks, and for which operator they are drawn; nothing: all that they have."""
    for seed in range(count):
        for op in operator_cases.OPERATORS:
            yield "", load_tflite(operator_cases.draw_case(op, seed).model)
        for op in MOVEMENT:
            yield "", fold_space_to_batch(load_tflite(movement_case(op, seed).model))
        for op in FORMS:
            yield op, load_tflite(form_case(op, seed))


def _onnx(count: int) -> Iterator[tuple[str, Graph]]:
    for seed in range(count):
        for op in onnx_cases.OPERATORS:
            named = "QuantizeLinear" * (op == "requantize")
            yield named, load_onnx(onnx_cases.draw_onnx_case(op, seed)[1], op)
        for op in NODES:
            graph = load_onnx(node_case(op, seed), op)
            yield op.split(" ")[0], graph
            if op == "Identity":
                yield "DequantizeLinear", graph
