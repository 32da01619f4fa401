"""What a file says of each operator: attributes, tensors, scales, and the values of its weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, Tensor

_BINS = 32
_FEW = 16
"""Values that are shown one by one, and of constants with no more there is no histogram."""


@dataclass(frozen=True)
class Histogram:
    """How often the values of a constant occur, in bins of equal width."""

    #: Least and largest value, as stored: integers of a quantized tensor.
    low: float
    high: float
    counts: tuple[int, ...]  #: Values in each bin.

    @classmethod
    def of(cls, values: np.ndarray) -> "Histogram | None":
        """Return the histogram of an array; None of few values, and of those that are no numbers.

        Integers that span fewer values than there are bins have a bin each.
        """
        if values.size <= _FEW or values.dtype.kind not in "iuf":
            return None
        values = values[np.isfinite(values)]
        if not values.size:
            return None
        low, high = values.min(), values.max()
        if values.dtype.kind == "f":
            span, bins = (float(low), float(high)), _BINS
        else:
            bins = min(_BINS, int(high) - int(low) + 1)
            span = int(low) - 0.5, int(high) + 0.5
        counts, _ = np.histogram(values, bins, span)
        return cls(float(low), float(high), tuple(counts.tolist()))


@dataclass(frozen=True)
class TensorDetails:
    """A tensor that an operator reads or computes."""

    role: str  #: ``input``, ``constant`` or ``output``.
    #: The tensor; its shape as ``1x32x32x16``.
    name: str
    shape: str
    dtype: str
    #: What its integers mean, the range of them if channels have their own; empty without.
    scale: str = ""
    zero_point: str = ""
    histogram: Histogram | None = None  #: Of a constant with many values.


@dataclass(frozen=True)
class OperatorDetails:
    """What a file says of an operator."""

    attributes: Mapping[str, str]  #: Its attributes.
    tensors: tuple[TensorDetails, ...]  #: Inputs and constants, then outputs.


def describe_operators(graph: Graph) -> dict[str, OperatorDetails]:
    """Return the details of each operator of a graph, by the name of its node."""
    return {node.name: _describe(node, graph) for node in graph.nodes}


def _describe(node: Node, graph: Graph) -> OperatorDetails:
    read = [graph.tensors[name] for name in dict.fromkeys(node.inputs) if name]
    made = [graph.tensors[name] for name in node.outputs]
    tensors = [_tensor(x, "input" if x.data is None else "constant") for x in read]
    tensors += [_tensor(x, "output") for x in made]
    attributes = {key.replace("_", " "): _text(x) for key, x in node.attributes.items()}
    return OperatorDetails(attributes, tuple(tensors))


def _tensor(tensor: Tensor, role: str) -> TensorDetails:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    scale, zero_point = _quantization(tensor.quantization)
    histogram = None if tensor.data is None else Histogram.of(tensor.data)
    return TensorDetails(role, tensor.name, shape, tensor.dtype, scale, zero_point, histogram)


def _quantization(quantization: Quantization | None) -> tuple[str, str]:
    """Return scales and zero points as text."""
    if quantization is None:
        return "", ""
    scales, zeros = quantization.scale, quantization.zero_point
    if scales.size == 1:
        return f"{float(scales[0]):.6g}", str(int(zeros[0]))
    text = f"{scales.min():.4g} to {scales.max():.4g} ({scales.size:,} along axis "
    low, high = int(zeros.min()), int(zeros.max())
    return f"{text}{quantization.axis})", str(low) if low == high else f"{low} to {high}"


def _text(value: object) -> str:
    """Return an attribute as people write it; of many numbers how many there are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        value = tuple(value.reshape(-1).tolist())
    if isinstance(value, tuple | list):
        flat = len(value) <= _FEW and not any(isinstance(x, tuple | list) for x in value)
        return ", ".join(map(_text, value)) if flat else f"{len(value):,} values"
    return str(value)
