"""LSTMs as products and what is computed of their sums, step by step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.graph.passes.rewrite import rebuild, unique_name

_LSTM = "integer_lstm"
_INPUT, _RECURRENT, _PEEPHOLE, _BIAS = 1, 5, 9, 12
_OUTPUT, _CELL = 18, 19
_SHOWN = "cell_power", "hidden_scale", "hidden_zero_point"
"""Attributes of an output."""
_CPU = {"macs": 0, "reason": "gates and cells of an LSTM are computed on the CPU"}
STEP_PARTS = ("recurrent", "gates", "cell", "output")
"""What names of a step's nodes end with, before its number."""

_POWER = 2.0**12
"""Gates have 12 fractional bits."""


def split_lstm(graph: Graph) -> Graph:
    """Replace each LSTM of TFLite by dense nodes with sums as results, and what the CPU adds.

    The products of the input, of all gates and steps, are one node. Those of the output before a
    step are one of a row, with the weights of all gates side by side.
    """
    if not any(node.op == _LSTM for node in graph.nodes):
        return graph
    nodes: list[Node] = []
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        nodes += _Split(node, tensors).nodes() if node.op == _LSTM else (node,)
    return rebuild(graph, nodes, tensors)


@dataclass(frozen=True, eq=False)
class _Split:
    node: Node
    tensors: dict[str, Tensor]  #: All tensors of the graph; new ones are added.

    def nodes(self) -> Iterator[Node]:
        node, (y, state, cell) = self.node, self.node.outputs
        time = 0 if node["time_major"] else 1
        x = self.tensors[node.inputs[0]]
        first = 0 if node.inputs[_INPUT] else 1
        entering, recurrent, bias, holes = (
            [name for name in node.inputs[begin + first : begin + count] if name]
            for begin, count in ((_INPUT, 4), (_RECURRENT, 4), (_BIAS, 4), (_PEEPHOLE, 3))
        )
        scales = {
            "input_scales": self._scales(entering, self._scale(x.name)),
            "recurrent_scales": self._scales(recurrent, self._scale(node.inputs[_OUTPUT])),
        }
        power = np.float32(2.0 ** node["cell_power"])
        looks = {"peephole_scales": self._scales(holes, power)} if holes else {}
        kept = {name: node[name] for name in ("cell_power", "cell_clip")} | looks
        shown = {name: node[name] for name in _SHOWN} | looks
        sums = self._sums("input", x.name, entering, x.shape[:-1])
        yield sums
        rows = x.shape[1 - time : 2 - time]
        offset = self._offset(x.name, sums)
        added = self._integers("bias", self._data(self._constant("biases", bias)) + offset)
        more = (self._constant("peephole", holes),) if holes else ()
        results, h, c = [], node.inputs[_OUTPUT], node.inputs[_CELL]
        for step in range(x.shape[time]):
            product = self._sums(f"recurrent{step}", h, recurrent, rows)
            yield product
            shape = self.tensors[product.outputs[0]].shape
            behind = self._integers("recurrent bias", self._offset(node.inputs[_OUTPUT], product))
            gates = self._add(Tensor(f"{node.name}/gates{step}", shape, "int16"))
            read = (sums.outputs[0], product.outputs[0], added, behind)
            fields = {"step": step, "time_major": node["time_major"], **scales}
            yield self._on_cpu("lstm_gates", gates, read, gates, fields)
            last = step == x.shape[time] - 1
            before, (h, c) = c, (each if last else self._like(each, step) for each in (state, cell))
            yield self._on_cpu(
                "lstm_cell", f"{node.name}/cell{step}", (gates, before, *more), c, kept
            )
            name = f"{node.name}/output{step}"
            yield self._on_cpu("lstm_output", name, (gates, c, *more), h, shown)
            results.append(h)
        yield self._on_cpu("stack", f"{node.name}/sequence", tuple(results), y, {"axis": time})

    def _on_cpu(
        self, op: str, name: str, inputs: tuple[str, ...], output: str, fields: Mapping[str, Any]
    ) -> Node:
        return Node(name, op, inputs, (output,), {**fields, **_CPU}, self.node.source)

    def _sums(self, name: str, source: str, weights: list[str], rows: tuple[int, ...]) -> Node:
        """Return the products of a tensor with the weights of all gates."""
        weight = self._constant(f"weights of {name.rstrip('0123456789')}", weights)
        shape = (*rows, self.tensors[weight].shape[0])
        made = self._add(Tensor(f"{self.node.name}/{name}", shape, "int32"))
        fields = {"activation": "none", "raw": True, "unshifted": True}
        return Node(made, "dense", (source, weight), (made,), fields, self.node.source)

    def _offset(self, source: str, product: Node) -> np.ndarray:
        """Return what the zero point of a product's input adds to its sums: int64 [channels]."""
        q = self.tensors[source].quantization
        assert q is not None
        weight = self._data(product.inputs[1]).astype(np.int64)
        return -int(q.zero_point[0]) * weight.sum(axis=1)

    def _data(self, name: str) -> np.ndarray:
        data = self.tensors[name].data
        assert data is not None
        return data

    def _integers(self, name: str, value: np.ndarray) -> str:
        """Return the name of a constant of int32, to which numbers wrap."""
        name = f"{self.node.name}/{name}"
        if name not in self.tensors:
            data = value.astype(np.int32)
            one = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
            self._add(Tensor(name, data.shape, "int32", one, data))
        return name

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

    def _scales(self, weights: list[str], other: np.float32) -> tuple[float, ...]:
        """Return what the sums of each gate are multiplied by: LiteRT's quotients of float32."""
        return tuple(float(self._scale(name) * other * np.float32(_POWER)) for name in weights)

    def _scale(self, name: str) -> np.float32:
        q = self.tensors[name].quantization
        assert q is not None
        return np.float32(q.scale[0])
