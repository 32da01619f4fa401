"""What quantization costs in an ONNX file, tensor by tensor."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tpulite.frontend.onnx.library import expose, open_session
from tpulite.quant.floats.graph import MOVING, ROUNDED, Links
from tpulite.quant.floats.masks import FAR, scores_of
from tpulite.quant.floats.mixed import floats_of
from tpulite.quant.floats.observe import level_of, live_rows, live_tokens, padding_input
from tpulite.quant.floats.recurrent.split import whole_recurrent
from tpulite.quant.int4_onnx import int8_weights
from tpulite.quant.quality import BEST, OutputSums, Quality, Sums, TensorError


@dataclass
class _Integers:
    """Tensors that a quantized file has as integers, by their names as floats."""

    names: dict[str, str] = field(default_factory=dict)
    meanings: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def of_file(self, model: onnx.ModelProto) -> "_Integers":
        """Return those that another file has as floats."""
        known = {name for node in model.graph.node for name in node.output}
        known |= {value.name for value in model.graph.input}
        return _Integers({x: y for x, y in self.names.items() if x in known}, self.meanings)

    def real(self, name: str, values: np.ndarray) -> np.ndarray:
        scale, zero = self.meanings[name]
        return (values.astype(np.float64) - zero) * scale


def measure_quality(
    floats: bytes,
    quantized: bytes,
    samples: Sequence[Mapping[str, np.ndarray]],
    progress: Callable[[int, int], None] | None = None,
    *,
    original: bytes | None = None,
) -> Quality:
    """Run both networks in ONNX Runtime, and compare every tensor that both have.

    Rows that belong to padding are not compared, for nothing reads them, nor scores that a mask
    leaves out.

    Parameters
    ----------
    floats, quantized : bytes
        The file, its batch fixed, and what the quantizer made of it.
    samples : sequence of mapping of str to ndarray
        Inputs by name.
    progress : callable, optional
        Called with the number of samples that were run and the number of all.
    original : bytes, optional
        The file that runs instead of that of floats: one with integer weights, for which that
        stands.
    """
    model = onnx.load_model_from_string(floats)
    written = onnx.load_model_from_string(quantized)
    integers = _integers(written, model)
    if original is not None:
        integers = integers.of_file(onnx.load_model_from_string(original))
    run, run_quantized = (
        _session(original or floats, list(integers.names)),
        _session(quantized, list(integers.names.values())),
    )
    outputs = {value.name: _has_classes(model.graph, value) for value in model.graph.output}
    mask, scores = padding_input(model.graph), scores_of(model.graph)
    sums: dict[str, Sums] = defaultdict(Sums)
    ends: dict[str, OutputSums] = defaultdict(OutputSums)
    for index, feed in enumerate(samples):
        wanted, found = run(feed), run_quantized(feed)
        for name, own in integers.names.items():
            both = wanted[name], integers.real(name, found[own])
            real, value = (live_tokens(x, feed, mask) for x in both)
            if name in scores:
                counts = real > FAR
                real, value = real[counts], value[counts]
            sums[name].add(real, value)
        for name, classes in outputs.items():
            real, value = (live_rows(x[name], feed, mask) for x in (wanted, found))
            ends[name].add(real, value, classes=classes)
        if progress is not None:
            progress(index + 1, len(samples))
    results = tuple(each.result(name) for name, each in ends.items())
    whole = tuple(f"{name}: {reason}" for name, reason in whole_recurrent(written).items())
    left = floats_of(written), int8_weights(written), whole
    return Quality(tuple(_errors(model, sums)), len(samples), results, *left)


_CLASSIFIERS = ("Gemm", "MatMul", "Conv", "GlobalAveragePool", "ReduceMean")
_BEHIND = frozenset({"Add", "Softmax", "LogSoftmax", "Exp", "Div", "Clip", *MOVING})
"""What stands between the scores of classes and an output."""


def _has_classes(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> bool:
    """Tell whether rows of an output are scores of classes: products, or what softmax makes."""
    links = Links(graph)
    name, shares = value.name, False
    while (node := links.writer.get(name)) is not None and node.op_type in _BEHIND:
        shares |= node.op_type in ("Softmax", "LogSoftmax", "Exp")
        name = next((x for x in node.input if x not in links.constants), "")
    if shares:
        return True
    kind = value.type.tensor_type
    rank = len(kind.shape.dim) if kind.HasField("shape") else 2
    return node is not None and node.op_type in _CLASSIFIERS and rank == 2


def _integers(model: onnx.ModelProto, floats: onnx.ModelProto) -> _Integers:
    """Find what the quantized file has of the results and inputs of the other."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    known = {name for node in floats.graph.node for name in node.output}
    known |= {value.name for value in floats.graph.input}
    real = {node.input[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    integers = _Integers()
    for node in model.graph.node:
        if node.op_type != "QuantizeLinear" or node.output[0] not in real:
            continue  # what integer products read, of which this may be a byte
        name = node.input[0].removesuffix(ROUNDED)
        if name in known and node.input[1] in constants:
            zero = constants[node.input[2]] if len(node.input) > 2 else np.zeros(())
            integers.names[name] = node.output[0]
            integers.meanings[name] = constants[node.input[1]], zero.astype(np.float64)
    return integers


def _session(
    data: bytes, names: Sequence[str]
) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
    """Make a function that computes tensors of a file, its outputs included."""
    model = onnx.load_model_from_string(data)
    inputs = {value.name for value in model.graph.input}
    expose(model, (name for name in names if name not in inputs))
    session = open_session(model.SerializeToString(), level_of(model))
    outputs = [output.name for output in session.get_outputs()]

    def run(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        values: Any = session.run(outputs, dict(feed))
        return {**feed, **dict(zip(outputs, values, strict=True))}

    return run


def _errors(model: onnx.ModelProto, sums: Mapping[str, Sums]) -> Iterator[TensorError]:
    producer = {name: node for node in model.graph.node for name in node.output}
    names = [*(value.name for value in model.graph.input), *producer]
    for name in (name for name in names if name in sums):
        each, node = sums[name], producer.get(name)
        before = [] if node is None else _before(node, producer, sums)
        worst = min((sums[other].decibels for other in before), default=BEST)
        lost = max(0.0, worst - each.decibels) if before else 0.0
        operator = "input" if node is None else node.op_type
        yield TensorError(name, operator, each.decibels, lost, each.largest, each.range)


def _before(
    node: onnx.NodeProto, producer: Mapping[str, onnx.NodeProto], sums: Mapping[str, Sums]
) -> set[str]:
    """Return the tensors with known errors from which an operator computes."""
    found: set[str] = set()
    todo, seen = list(node.input), set()
    while todo:
        name = todo.pop()
        if name in sums:
            found.add(name)
        elif name in producer and name not in seen:
            seen.add(name)
            todo += producer[name].input
    return found
