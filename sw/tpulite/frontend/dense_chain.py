"""Import of our own files of dense layers (.npz), as the digits' classifier is one.

Such a file has the integers of each layer and the factors of its sums, but no scales of
activations. So these are 1, and the weights have the whole factor.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from tpulite.arch.numerics import INT8, Rounding
from tpulite.arrays import read_arrays
from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.graph.verify import verify

__all__ = ["MEMBER", "load_dense_chain"]

MEMBER = "network.npy"
"""What an archive of this form holds, and others do not."""

_FORMAT = ("tpulite-network", 1)

Layers = list[Mapping[str, Any]]


def load_dense_chain(data: bytes) -> Graph:
    """Read a chain of dense layers, each of whose sums become int8 as ONNX Runtime makes them.

    Returns
    -------
    Graph
        The network, named as in the file; ``input`` and ``output`` are [1, channels].

    Raises
    ------
    ValueError
        If the file is damaged or of another version, or a layer rounds or clamps otherwise.
    """
    try:
        arrays = read_arrays(data)
        metadata = json.loads(str(arrays["network"]))
        if (found := (metadata["format"], metadata["version"])) != _FORMAT:
            raise ValueError(f"format and version are {found}")
        graph = _graph(metadata, arrays)
        verify(graph)
        return graph
    except Exception as error:  # headers of arrays are evaluated as Python
        raise ValueError(f"this is not a tpulite network file: {error}") from error


def _graph(metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Graph:
    layers: Layers = metadata["layers"]
    dtype = metadata["input_dtype"]
    names = ["input", *(f"after {layer['name']}" for layer in layers[:-1]), "output"]
    points = [layers[0]["input_zero_point"], *(layer["output_zero_point"] for layer in layers)]
    widths = [len(arrays["0.weight"]), *(len(arrays[f"{i}.bias"]) for i in range(len(layers)))]
    tensors, nodes = [], []
    for name, point, width in zip(names, points, widths, strict=True):
        shift = 128 if dtype == "uint8" else 0  # the file has zero points of int8
        tensors.append(Tensor(name, (1, width), dtype, _quantization(np.ones(1), point + shift)))
    for i, (layer, (x, y)) in enumerate(zip(layers, pairwise(names), strict=True)):
        weight, bias, scale = (arrays[f"{i}.{what}"] for what in ("weight", "bias", "scale"))
        quantization = _quantization(scale, layer["weight_zero_point"])
        w, b = f"{layer['name']}.weight", f"{layer['name']}.bias"
        tensors.append(Tensor(w, weight.T.shape, weight.dtype.name, quantization, weight.T))
        tensors.append(Tensor(b, bias.shape, bias.dtype.name, data=bias))
        attributes = {"activation": _activation(layer)}
        nodes.append(Node(layer["name"], "dense", (x, w, b), (y,), attributes, "Dense"))
    by_name = {tensor.name: tensor for tensor in tensors}
    return Graph(metadata["name"], tuple(nodes), by_name, ("input",), ("output",), "onnx")


def _quantization(scale: np.ndarray, zero_point: int) -> Quantization:
    points = np.full(len(scale), zero_point, np.int64)
    return Quantization(scale.astype(np.float32), points, 0 if len(scale) > 1 else None)


def _activation(layer: Mapping[str, Any]) -> str:
    name, clamp = layer["name"], (layer["low"], layer["high"])
    if layer["raw"] or layer["rounding"] != Rounding.FLOAT32:
        raise ValueError(f"layer {name!r} does not scale its sums in float32")
    for activation, low in (("none", INT8[0]), ("relu", layer["output_zero_point"])):
        if clamp == (low, INT8[-1]):
            return activation
    raise ValueError(f"layer {name!r} clamps to {clamp}, which is neither nothing nor a ReLU")
