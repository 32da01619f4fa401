"""Softmax of ONNX Runtime on bytes, as a call of C that adds floats in the same order."""

import math

import numpy as np
from numpy.typing import NDArray

from tpulite.export.calls import HostCall, PlannedCall
from tpulite.export.host_steps import along_axis
from tpulite.export.trials import BYTES, Trial
from tpulite.graph.graph import Graph, Node
from tpulite.quant.exactness import Exactness

_WHOLE = 2**22
"""Below this, adding 2^23 in float32 and taking it away rounds to an integer."""

_RESULTS = 2048
"""Results at least that are compared with the library's."""


def softmax_of_bytes(node: Node, graph: Graph, exact: Exactness) -> PlannedCall | None:
    """Plan a softmax of bytes: dequantized, a softmax of floats, and quantized by ``node``."""
    makers = {name: each for each in graph.nodes for name in each.outputs}
    softmax = makers.get(node.inputs[0])
    if softmax is None or softmax.source != "QLinearSoftmax":
        return None
    floats = makers[softmax.inputs[0]]
    x, y = graph.tensors[floats.inputs[0]], graph.tensors[node.outputs[0]]
    assert x.quantization is not None and y.quantization is not None
    fields: dict[str, object] = along_axis(softmax, x)
    scale, count = np.float64(x.quantization.scale[0]), x.shape[softmax["axis"]]
    lift = np.log(np.finfo(np.float32).max / np.float32(count)) - 5  # so much may a sum be
    exps = np.exp((-np.arange(BYTES) + max(0.0, float(lift)) / scale) * scale).astype(np.float32)
    unit, zero_point = np.floor(np.float32(1) / y.quantization.scale[0]), y.quantization.zero_point
    trial = Trial(graph, exact, (floats, softmax, node))

    def computed(values: NDArray) -> NDArray:
        along = np.moveaxis(values.view(x.dtype).astype(np.int64), softmax["axis"], -1)
        parts = exps[along.max(-1, keepdims=True) - along]
        quotients = np.rint(parts * unit / np.cumsum(parts, -1, dtype=np.float32)[..., -1:])
        found = np.minimum(quotients + zero_point[0], np.iinfo(y.dtype).max).astype(y.dtype)
        return np.moveaxis(found, -1, softmax["axis"])

    def make() -> HostCall:
        if unit > _WHOLE:
            raise ValueError(f"{trial.named} cannot be exported: its scale is too small")
        rng, compute = np.random.default_rng(0), trial.opened()
        for _ in range(-(-_RESULTS // math.prod(x.shape))):
            drawn = rng.integers(0, rng.integers(2, BYTES + 1), x.shape).astype(np.uint8)
            if not np.array_equal(compute({x.name: drawn}), computed(drawn).reshape(-1)):
                raise ValueError(
                    f"{trial.named} cannot be exported: its library computes it otherwise"
                )
        more = {"zero_point": zero_point[0], "unit": unit, "exps": exps}
        return HostCall("tpulite_softmax_quotient", "tpulite_softmax_quotients", fields | more)

    return PlannedCall((x.name,), make)
