"""A graph while passes change it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from tpulite.graph.graph import Graph, Node, Tensor


class Draft:
    """Nodes, tensors, and who reads and writes which.

    Parameters
    ----------
    graph : Graph
        Where to start; it does not change.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self._nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
        self._readers: dict[str, dict[str, None]] = defaultdict(dict)
        self._writer: dict[str, str] = {}
        for node in graph.nodes:
            self._link(node)

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in no particular order."""
        return list(self._nodes.values())

    def current(self, node: Node) -> bool:
        """Tell whether a node is still part of the graph, and unchanged."""
        return self._nodes.get(node.name) is node

    def writer(self, tensor: str) -> Node | None:
        """Return the node that computes a tensor."""
        name = self._writer.get(tensor)
        return None if name is None else self._nodes[name]

    def readers(self, tensor: str) -> list[Node]:
        """Return the nodes that read a tensor."""
        return [self._nodes[name] for name in self._readers[tensor]]

    def only_reader(self, tensor: str) -> Node | None:
        """Return the node that alone reads a tensor that is not an output of the graph."""
        if tensor in self.graph.outputs or len(self._readers[tensor]) != 1:
            return None
        return self.readers(tensor)[0]

    def set(self, node: Node) -> None:
        """Add a node, or change the one of this name."""
        self.remove(node.name)
        self._nodes[node.name] = node
        self._link(node)

    def remove(self, name: str) -> None:
        """Remove a node, if there is one of this name."""
        node = self._nodes.pop(name, None)
        if node is None:
            return
        for tensor in node.inputs:
            self._readers[tensor].pop(name, None)
        for tensor in node.outputs:
            if self._writer.get(tensor) == name:
                del self._writer[tensor]

    def redirect(self, old: str, new: str) -> None:
        """Make all readers of ``old`` read ``new``."""
        for node in self.readers(old):
            inputs = tuple(new if name == old else name for name in node.inputs)
            self.set(replace(node, inputs=inputs))

    def add_tensor(self, tensor: Tensor) -> str:
        """Add or change a tensor; return its name."""
        self.tensors[tensor.name] = tensor
        return tensor.name

    def freeze(self) -> Graph:
        """Return the graph without what no output needs, in an order in which it can run.

        Values of attention come before its scores. Scores, softmax and the product with values then
        follow each other, and the machine overlaps them.
        """
        order: list[Node] = []
        done: set[str] = set()
        stack = [(name, False) for name in reversed(self.graph.outputs)]
        while stack:
            tensor, inputs_done = stack.pop()
            node = self.writer(tensor)
            if node is None or node.name in done:
                continue
            if inputs_done:
                done.add(node.name)
                order.append(node)
                continue
            stack.append((tensor, True))
            inputs = node.inputs if self._mixes_values(node) else reversed(node.inputs)
            stack += [(name, False) for name in inputs if name]
        return Graph(
            self.graph.name,
            tuple(order),
            self._used(order),
            self.graph.inputs,
            self.graph.outputs,
            self.graph.format,
        )

    def _mixes_values(self, node: Node) -> bool:
        """Tell whether a node multiplies shares, as softmax of integers makes them, with values."""
        shares = self.writer(node.inputs[0]) if node.op == "matmul" else None
        return shares is not None and shares.op == "softmax"

    def _used(self, nodes: Iterable[Node]) -> dict[str, Tensor]:
        names = {*self.graph.inputs, *self.graph.outputs}
        for node in nodes:
            names.update(name for name in (*node.inputs, *node.outputs) if name)
        return {name: tensor for name, tensor in self.tensors.items() if name in names}

    def _link(self, node: Node) -> None:
        for tensor in node.inputs:
            self._readers[tensor][node.name] = None
        for tensor in node.outputs:
            self._writer[tensor] = node.name
