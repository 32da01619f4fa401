"""Networks of convolutions, depthwise and dense layers, each with an input of its own."""

from dataclasses import dataclass

import numpy as np

from tpulite.graph.graph import Graph
from tpulite_testing.graphs.float_graphs import GraphBuilder
from tpulite_testing.graphs.small_graphs import constant

__all__ = ["Weighted", "weighted_graph"]


@dataclass(frozen=True, kw_only=True)
class Weighted:
    """A layer; ``op`` is conv, depthwise or dense, and ``group`` is the multiplier of the second.

    ``zero_points`` are those of input, weights and output, as the type ``dtype`` has them.
    """

    op: str = "conv"
    oc: int = 8
    ic: int = 3
    kernel: tuple[int, int] = (3, 3)
    group: int = 1
    bias: bool = True
    dtype: str = "int8"
    zero_points: tuple[int, int, int] = (0, 0, 0)
    activation: str = "none"


def weighted_graph(layers: list[Weighted], seed: int = 0) -> Graph:
    """Return a network; layer i is called ``{op}_y{i}``, with an input ``x{i}``."""
    rng, b = np.random.default_rng(seed), GraphBuilder()
    for i, layer in enumerate(layers):
        _add(b, layer, i, rng)
    return b.build(*(f"y{i}" for i in range(len(layers))))


def _add(b: GraphBuilder, layer: Weighted, i: int, rng: np.random.Generator) -> None:
    kh, kw = layer.kernel
    window = {"stride": (1, 1), "dilation": (1, 1), "padding": (1, 0, 1, 0)}
    attributes = {
        "conv": window | {"group": layer.group},
        "depthwise": window | {"multiplier": layer.group},
        "dense": {},
    }[layer.op]
    shape, inner, axis = {
        "conv": ((layer.oc, kh, kw, layer.ic), layer.ic * layer.group, 0),
        "depthwise": ((kh, kw, layer.oc), layer.oc // layer.group, 2),
        "dense": ((layer.oc, layer.ic), layer.ic, 0),
    }[layer.op]
    floats = layer.dtype == "float32"
    zeros = layer.zero_points

    def meaning(zero: int) -> tuple[float, int] | None:
        return None if floats else (float(rng.uniform(0.02, 0.1)), zero)

    plane = () if layer.op == "dense" else (kh + 2, kw + 1)
    result = () if layer.op == "dense" else (5, 2)
    b.input(f"x{i}", (1, *plane, inner), meaning(zeros[0]), dtype=layer.dtype)
    if floats:
        b.constant(f"w{i}", rng.standard_normal(shape, np.float32))
        bias = rng.standard_normal(layer.oc, np.float32)
    else:
        low = np.iinfo(layer.dtype).min
        values = rng.integers(low, low + 256, shape).astype(layer.dtype)
        count = layer.oc if zeros[1] == 0 and layer.dtype == "int8" else 1
        scales = rng.uniform(0.001, 0.01, count).astype(np.float32)
        points = np.full(count, zeros[1])
        axis = axis if count > 1 else None
        b.tensors[f"w{i}"] = constant(f"w{i}", values, scales, points, axis)
        bias = rng.integers(-(1 << 12), 1 << 12, layer.oc, np.int32)
    inputs = [f"x{i}", f"w{i}"]
    if layer.bias:
        inputs.append(b.constant(f"b{i}", bias))
    b.node(
        layer.op,
        inputs,
        f"y{i}",
        (1, *result, layer.oc),
        meaning(zeros[2]),
        dtype=layer.dtype,
        activation=layer.activation,
        **attributes,
    )
