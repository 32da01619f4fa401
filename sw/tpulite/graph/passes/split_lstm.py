"""LSTMs as products and what is computed of their sums, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.graph.passes.rewrite import rebuild, unique_name

__all__ = ["split_lstm"]

_INPUT, _RECURRENT, _PEEPHOLE, _BIAS = 1, 5, 9, 12
_OUTPUT, _CELL = 18, 19
_GATES = "input", "forget", "cell", "output"
_CPU = {"macs": 0, "reason": "gates and cells of an LSTM are computed on the CPU"}
_POWER = 2.0**12
"""Gates have 12 fractional bits."""


def split_lstm(graph: Graph) -> Graph:
    """Replace each LSTM by dense nodes with sums as results, and ``lstm_step`` between them.

    The products of the input, of all gates and steps, are one node. Those of the output before a
    step are one of a row, with the weights of all gates side by side.
    """
    if not any(node.op == "lstm" for node in graph.nodes):
        return graph
    nodes: list[Node] = []
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        nodes += _Split(node, tensors).nodes() if node.op == "lstm" else (node,)
    return rebuild(graph, nodes, tensors)


@dataclass(frozen=True, eq=False)
class _Split:
    node: Node
    tensors: dict[str, Tensor]  #: All tensors of the graph; new ones are added.

    def nodes(self) -> Iterator[Node]:
        node, (y, state, cell) = self.node, self.node.outputs
        time = 0 if node["time_major"] else 1
        x, output = self.tensors[node.inputs[0]], self.tensors[y]
        first = 0 if node.inputs[_INPUT] else 1
        gates = range(first, len(_GATES))
        sums = self._sums("input", x.name, [node.inputs[_INPUT + i] for i in gates], x.shape[:-1])
        yield sums
        recurrent = [node.inputs[_RECURRENT + i] for i in gates]
        attributes = {**node.attributes, **self._scales(gates), **_CPU}
        bias = self._constant("bias", [node.inputs[_BIAS + i] for i in gates])
        peephole = [node.inputs[_PEEPHOLE + i] for i in range(first, 3)]
        more = (self._constant("peephole", peephole),) if any(peephole) else ()
        h, c = node.inputs[_OUTPUT], node.inputs[_CELL]
        results = []
        for step in range(x.shape[time]):
            last = step == x.shape[time] - 1
            product = self._sums(f"recurrent{step}", h, recurrent, x.shape[1 - time : 2 - time])
            yield product
            before, h, c = c, *(each if last else self._like(each, step) for each in (state, cell))
            results.append(h)
            yield Node(
                f"{node.name}/step{step}",
                "lstm_step",
                (sums.outputs[0], product.outputs[0], before, bias, *more),
                (h, c),
                {**attributes, "step": step},
                node.source,
            )
        self.tensors[y] = output
        fields = {"axis": time, **_CPU}
        yield Node(f"{node.name}/sequence", "stack", tuple(results), (y,), fields, node.source)

    def _sums(self, name: str, source: str, weights: list[str], rows: tuple[int, ...]) -> Node:
        """Return the products of a tensor with the weights of all gates."""
        weight = self._constant(f"weights of {name.rstrip('0123456789')}", weights)
        shape = (*rows, self.tensors[weight].shape[0])
        made = self._add(Tensor(f"{self.node.name}/{name}", shape, "int32"))
        fields = {"activation": "none", "raw": True}
        return Node(made, "dense", (source, weight), (made,), fields, self.node.source)

    def _constant(self, name: str, parts: list[str]) -> str:
        """Return the name of constants side by side."""
        name = f"{self.node.name}/{name}"
        if name not in self.tensors:
            each = [self.tensors[part] for part in parts]
            data = np.concatenate([tensor.data for tensor in each if tensor.data is not None])
            one = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
            self._add(Tensor(name, data.shape, each[0].dtype, one, data))
        return name

    def _like(self, name: str, step: int) -> str:
        tensor = self.tensors[name]
        return self._add(replace(tensor, name=f"{tensor.name}/{step}"))

    def _add(self, tensor: Tensor) -> str:
        name = unique_name(tensor.name, self.tensors)
        self.tensors[name] = replace(tensor, name=name)
        return name

    def _scales(self, gates: range) -> dict[str, tuple[float, ...]]:
        """Return what the sums of each gate are multiplied by: LiteRT's quotients of float32."""
        node = self.node

        def of(begin: int, other: np.float32, which: range) -> tuple[float, ...]:
            scales = (self._scale(node.inputs[begin + i]) for i in which)
            return tuple(float(scale * other * np.float32(_POWER)) for scale in scales)

        found = {
            "input_scales": of(_INPUT, self._scale(node.inputs[0]), gates),
            "recurrent_scales": of(_RECURRENT, self._scale(node.inputs[_OUTPUT]), gates),
        }
        if node.inputs[_PEEPHOLE + 1]:
            power = np.float32(2.0 ** node["cell_power"])
            found["peephole_scales"] = of(_PEEPHOLE, power, range(gates[0], 3))
        return found

    def _scale(self, name: str) -> np.float32:
        q = self.tensors[name].quantization
        assert q is not None
        return np.float32(q.scale[0])
