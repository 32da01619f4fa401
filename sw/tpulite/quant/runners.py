"""Who runs an operator on the CPU: numpy, the library of the file's format, or LiteRT.

A library of other numerics than the network's runs only what nobody else has. LiteRT has operators
of 8 bits of ONNX files, too: they are written as TFLite.
"""

from collections.abc import Iterable, Mapping, Sequence

from tpulite.frontend.tflite.codes import CODES
from tpulite.graph.graph import Graph, Node
from tpulite.graph.passes.rewrite import same_meaning
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import is_lacking
from tpulite.quant.one_type import PRODUCTS, has_strange_zero_point
from tpulite.quant.own import is_own

NUMPY, TFLITE = "", "tflite"

_INTEGERS = ("int8", "uint8")

_ROUNDING = ("add", "dequantize", "mul", "quantize", "requantize", "softmax", "sub")
"""Operators that numpy computes with each library's rounding; others of its own go along."""


def is_litert(node: Node, graph: Graph, exactness: Exactness) -> bool:
    """Tell whether LiteRT has an operator of an ONNX file, whose tensors are all integers."""
    if not exactness.litert or graph.format != "onnx":
        return False
    ends = [graph.tensors[x] for x in (*node.inputs, *node.outputs) if x]
    if any(x.dtype not in _INTEGERS and (x.data is None or x.dtype != "int32") for x in ends):
        return False
    if node.op == "softmax" and node.attributes.get("axis", -1) not in (-1, len(ends[0].shape) - 1):
        return False
    if node.op in PRODUCTS and has_strange_zero_point(node, graph.tensors[node.inputs[1]]):
        return False
    if is_lacking(node.op, node.attributes, ends[0].dtype, exactness):
        return False
    return node.op in CODES or (node.op == "clip" and same_meaning(*ends))


def library_of(nodes: Iterable[Node], graph: Graph, exactness: Exactness) -> str:
    """Return the format of the part in which a library runs nodes together."""
    written = all(is_litert(node, graph, exactness) for node in nodes)
    return TFLITE if written else graph.format


def runners_of(graph: Graph, exactness: Exactness, levels: Mapping[str, int]) -> dict[str, str]:
    """Return who runs each node of the CPU: the format of a library's part, empty for numpy.

    Parameters
    ----------
    levels : mapping of str to int
        Number of each node's segment; those of the CPU are even.
    """
    nodes = [node for node in graph.nodes if levels[node.name] % 2 == 0]
    if exactness.is_of_format(graph.format):
        return _by_segments(graph, exactness, nodes, levels)
    return _by_nodes(graph, exactness, nodes, levels)


def in_turn(
    nodes: Sequence[Node], runners: Mapping[str, str]
) -> Iterable[tuple[str, tuple[Node, ...]]]:
    """Yield parts of nodes in an order in which they can run, each with who runs it."""
    order = list(dict.fromkeys(runners[node.name] for node in nodes))
    turns: dict[str, int] = {}
    parts: dict[int, list[Node]] = {}
    for node in nodes:
        first = max((turns[name] for name in node.inputs if name in turns), default=0)
        turn = first + (order.index(runners[node.name]) - first) % len(order)
        turns.update(dict.fromkeys(node.outputs, turn))
        parts.setdefault(turn, []).append(node)
    for turn in sorted(parts):
        yield order[turn % len(order)], tuple(parts[turn])


def _by_segments(
    graph: Graph, exactness: Exactness, nodes: Sequence[Node], levels: Mapping[str, int]
) -> dict[str, str]:
    """Give the library whole segments with an operator that numpy lacks.

    And those that need a tensor of such a segment that is none of the file: a library computes it
    again.
    """
    origins = {} if graph.source is None else graph.source.origins
    level_of = {name: levels[node.name] for node in nodes for name in node.outputs}
    found: set[int] = set()
    for node in nodes:
        unnamed = {level_of[x] for x in node.inputs if x in level_of and x not in origins}
        if not is_own(node, graph, exactness) or found & unnamed:
            found.add(levels[node.name])
    return {node.name: graph.format if levels[node.name] in found else NUMPY for node in nodes}


def _by_nodes(
    graph: Graph, exactness: Exactness, nodes: Sequence[Node], levels: Mapping[str, int]
) -> dict[str, str]:
    """Give the library of the file's format, whose numerics are others, no more than it must run.

    It can be handed tensors of the file alone: what it computes again or hides, it must run.
    """
    runners: dict[str, str] = {}
    makers = {name: node for node in nodes for name in node.outputs}
    readers = {name: node for node in nodes for name in node.inputs}
    along = []
    for node in nodes:
        if not is_own(node, graph, exactness):
            runners[node.name] = library_of([node], graph, exactness)
        elif node.op in _ROUNDING:
            runners[node.name] = NUMPY
        else:
            along.append(node)
    for each, beside in ((along, makers), (along[::-1], readers)):
        for node in each:
            names = node.inputs if beside is makers else node.outputs
            found = [runners.get(beside[x].name) for x in names if x in beside]
            if node.name not in runners and any(x is not None for x in found):
                runner = next(x for x in found if x is not None)
                unable = runner == TFLITE and not is_litert(node, graph, exactness)
                runners[node.name] = NUMPY if unable else runner
    runners |= {node.name: NUMPY for node in along if node.name not in runners}
    return _with_names(graph, nodes, runners)


def _with_names(graph: Graph, nodes: Sequence[Node], runners: Mapping[str, str]) -> dict[str, str]:
    """Give the library of the file's format what it shares tensors with that the file lacks."""
    origins = {} if graph.source is None else graph.source.origins
    makers = {name: node.name for node in nodes for name in node.outputs}
    pairs = [
        {makers[name], node.name}
        for node in nodes
        for name in node.inputs
        if name in makers and name not in origins
    ]
    found = {name for name, runner in runners.items() if runner == graph.format}
    while more := {name for pair in pairs if pair & found for name in pair} - found:
        found |= more
    return {**runners, **dict.fromkeys(found, graph.format)}
