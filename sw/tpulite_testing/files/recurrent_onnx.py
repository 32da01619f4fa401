"""ONNX files with one LSTM, GRU or RNN of floats, and samples for them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["Recurrent", "recurrent_file", "recurrent_samples"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_LOUD = 1.5
"""Deviation of weights, times the root of the cells: gates open and close."""


@dataclass(frozen=True)
class Recurrent:
    """A recurrent node [steps, batch, features] and a product behind it."""

    kind: str = "LSTM"
    cells: int = 12
    steps: int = 3
    batch: int = 1
    features: int = 8
    both: bool = False  #: Whether it runs forward and backward.
    initial: bool = False  #: Whether first states are inputs.
    peephole: bool = False
    opset: int = 17
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def directions(self) -> int:
        """Return how many directions there are."""
        return 1 + self.both


def recurrent_file(form: Recurrent, seed: int = 7) -> bytes:
    """Return the file: inputs x, h0 and c0 (if ``initial``); outputs out, hn, and cn of an LSTM."""
    rng = np.random.default_rng(seed)
    count, gates, cells = form.directions, _GATES[form.kind], form.cells
    constants: list[onnx.TensorProto] = []

    def drawn(name: str, *shape: int) -> str:
        value = rng.normal(scale=_LOUD / np.sqrt(cells), size=shape).astype(np.float32)
        constants.append(numpy_helper.from_array(value, name))
        return name

    def number(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    state = count, form.batch, cells
    inputs = [number("x", form.steps, form.batch, form.features)]
    names = [
        "x",
        drawn("w", count, gates * cells, form.features),
        drawn("r", count, gates * cells, cells),
        drawn("b", count, 2 * gates * cells),
        "",
    ]
    outputs = [number("hn", *state)]
    if form.kind == "LSTM":
        outputs.append(number("cn", *state))
    first = ["h0", "c0"][: len(outputs)] if form.initial else []
    inputs += [number(name, *state) for name in first]
    names += [*first, *[""] * (2 - len(first))] if form.kind == "LSTM" else first
    if form.peephole:
        names.append(drawn("p", count, 3 * cells))
    direction = {"direction": "bidirectional"} if form.both else {}
    fields = {"hidden_size": cells} | direction | form.attributes
    shape = np.array([form.steps, form.batch, count * cells], np.int64)
    constants.append(numpy_helper.from_array(shape, "shape"))
    results = ["y", *(value.name for value in outputs)]
    nodes = [
        helper.make_node(form.kind, names, results, name="cell", **fields),
        helper.make_node("Transpose", ["y"], ["turned"], name="turn", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "shape"], ["rows"], name="rows"),
        helper.make_node("MatMul", ["rows", drawn("v", count * cells, 6)], ["out"], name="head"),
    ]
    out = number("out", form.steps, form.batch, 6)
    graph = helper.make_graph(nodes, "recurrent", inputs, [out, *outputs], constants)
    opsets = [helper.make_opsetid("", form.opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def recurrent_samples(data: bytes, count: int, seed: int = 8) -> list[dict[str, np.ndarray]]:
    """Return normal inputs of a file; first states are half as large."""
    rng = np.random.default_rng(seed)
    shapes = {
        value.name: [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        for value in onnx.load_model_from_string(data).graph.input
    }
    return [
        {
            name: rng.normal(scale=1.0 if name == "x" else 0.5, size=shape).astype(np.float32)
            for name, shape in shapes.items()
        }
        for _ in range(count)
    ]
