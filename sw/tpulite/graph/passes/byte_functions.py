"""Parts of a network that compute a function of one byte, element by element."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.rewrite import rebuild, remove_dead_nodes, unique_name
from tpulite.graph.verify import FUNCTIONS

_SCALES = ("quantize", "dequantize", "requantize")
_CHOICES = {
    *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"),
    *("logical_and", "logical_or", "logical_not", "select", "select_v2", "cast"),
}
_ELEMENTWISE = FUNCTIONS | {
    *(*_SCALES, *_CHOICES),
    *("add", "sub", "mul", "div", "maximum", "minimum", "squared_difference", "pow", "floor_div"),
}
_BYTES = ("int8", "uint8")


@dataclass(frozen=True, eq=False)
class ByteFunction:
    """A function of one byte."""

    #: The only tensor that it depends on, and its result; both are of 8 bits and of one shape.
    source: str
    target: str
    nodes: tuple[Node, ...]  #: What computes it.


def byte_functions(graph: Graph) -> tuple[ByteFunction, ...]:
    """Return the longest functions of one byte that are more than one function of integers.

    Constants have one element. Results are those that others read, or the user.
    """
    roots: dict[str, str] = {}
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        root = _root(graph, node, roots)
        if root is not None:
            roots[node.outputs[0]] = root
            makers[node.outputs[0]] = node
    seen = set(graph.outputs)
    for node in reversed(graph.nodes):
        inside = bool(node.outputs) and node.outputs[0] in roots
        if not inside or (node.outputs[0] in seen and not _is_byte(graph.tensors[node.outputs[0]])):
            seen.update(node.inputs)
    found = []
    for target, source in roots.items():
        if target not in seen or not _is_byte(graph.tensors[target]):
            continue
        nodes = _between(graph, target, makers)
        known = len(nodes) == 1 and nodes[0].op in (*FUNCTIONS, "requantize")
        if not known:
            found.append(ByteFunction(source, target, nodes))
    return tuple(found)


def with_tables(
    graph: Graph, functions: Iterable[ByteFunction], tables: Mapping[str, tuple[int, ...]]
) -> Graph:
    """Return a graph whose functions of one byte are nodes ``table``.

    Parameters
    ----------
    functions : iterable of ByteFunction
        Functions of the graph; those without a table stay as they are.
    tables : mapping of str to tuple of int
        The 256 integers of a function by its target, that of the least byte first.
    """
    replaced = {}
    for each in functions:
        if each.target in tables:
            named = [node for node in each.nodes if node.op not in _SCALES] or each.nodes
            ends = {"inputs": (each.source,), "outputs": (each.target,)}
            attributes = {"table": tables[each.target]}
            table = replace(named[-1], op="table", attributes=attributes, **ends)
            replaced[each.nodes[-1].name] = table
    if not replaced:
        return graph
    taken = {node.name for node in graph.nodes}
    nodes = []
    for node in graph.nodes:
        table = replaced.get(node.name, node)
        if table.name != node.name:  # which another node has, though it may soon be gone
            table = replace(table, name=unique_name(table.name, taken))
            taken.add(table.name)
        nodes.append(table)
    return remove_dead_nodes(rebuild(graph, nodes))


def _root(graph: Graph, node: Node, roots: Mapping[str, str]) -> str | None:
    """Return the tensor of bytes of which the result of a node is a function, if it is one."""
    if node.op not in _ELEMENTWISE or len(node.outputs) != 1 or "" in node.inputs:
        return None
    y = graph.tensors[node.outputs[0]]
    found = set()
    for name in node.inputs:
        tensor = graph.tensors[name]
        if tensor.data is not None:
            if math.prod(tensor.shape) != 1:
                return None
        elif tensor.shape != y.shape:
            return None
        else:
            found.add(roots.get(name, name))
    (root, *others) = found or {""}
    return root if root and not others and _is_byte(graph.tensors[root]) else None


def _is_byte(tensor: Tensor) -> bool:
    q = tensor.quantization
    return tensor.dtype in _BYTES and q is not None and len(q.scale) == 1


def _between(graph: Graph, target: str, makers: Mapping[str, Node]) -> tuple[Node, ...]:
    """Return the nodes that compute a function, in the order of the graph."""
    needed, names = {target}, [target]
    while names:
        for name in makers[names.pop()].inputs:
            if name in makers and name not in needed:
                needed.add(name)
                names.append(name)
    return tuple(node for node in graph.nodes if node.outputs and node.outputs[0] in needed)
