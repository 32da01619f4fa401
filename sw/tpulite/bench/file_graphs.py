"""Small quantized networks as users' files describe them, with random weights.

Each is the graph that a frontend makes of such a file; nothing is done in advance that
:meth:`tpulite.runtime.model.Model.load` would not do for a file.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, Tensor

_SEED = 1
_SCALE = 0.05
"""Of activations."""

_WEIGHT_SCALE = 0.01

_FORMAT = "tflite"


def dense_graph(name: str, batch: int, sizes: tuple[int, ...]) -> Graph:
    """Return FULLY_CONNECTED layers of ``sizes[i]`` by ``sizes[i + 1]``, with RELU between them."""
    rng = np.random.default_rng(_SEED)
    tensors, nodes = [_activation("x0", (batch, sizes[0]))], []
    for i, (k, n) in enumerate(pairwise(sizes)):
        last = i == len(sizes) - 2
        weight = rng.integers(-127, 128, (n, k)).astype(np.int8)
        bias = rng.integers(-(2**12), 2**12, n).astype(np.int32)
        tensors += [
            _constant(f"w{i}", weight, [_WEIGHT_SCALE]),
            _constant(f"b{i}", bias, [_SCALE * _WEIGHT_SCALE]),
            _activation(f"x{i + 1}", (batch, n), _SCALE * k**0.5, 0 if last else -128),
        ]
        attributes = {"activation": "none" if last else "relu"}
        inputs, output = (f"x{i}", f"w{i}", f"b{i}"), f"x{i + 1}"
        nodes.append(Node(f"fc{i}", "dense", inputs, (output,), attributes, "FULLY_CONNECTED"))
    return _graph(name, tuple(nodes), tensors, ("x0",), f"x{len(nodes)}")


def function_graph(name: str, op: str, shape: tuple[int, int, int]) -> Graph:
    """Return a function of each number, as LOGISTIC, of an activation [height, width, channels]."""
    tensors = [_activation("x", (1, *shape)), _activation("y", (1, *shape), 1 / 256, -128)]
    return _graph(name, (Node(op, op, ("x",), ("y",), {}, op.upper()),), tensors, ("x",), "y")


def add_graph(name: str, shape: tuple[int, int, int]) -> Graph:
    """Return ADD of two activations [height, width, channels]."""
    extents = (1, *shape)
    tensors = [
        _activation("a", extents),
        _activation("b", extents, 0.07, 5),
        _activation("y", extents, 0.09, -7),
    ]
    node = Node("add", "add", ("a", "b"), ("y",), {"activation": "none"}, "ADD")
    return _graph(name, (node,), tensors, ("a", "b"), "y")


def batch_norm_graph(name: str, shape: tuple[int, int, int]) -> Graph:
    """Return BatchNormalization between quantizations, as in a QDQ file of ONNX."""
    rng, channels = np.random.default_rng(_SEED), shape[-1]
    parameters = {
        "gamma": rng.uniform(0.5, 2, channels),
        "beta": rng.uniform(-1, 1, channels),
        "mean": rng.uniform(-1, 1, channels),
        "variance": rng.uniform(0.5, 4, channels),
    }
    tensors = [_activation("x", (1, *shape)), _activation("y", (1, *shape), 0.08, 3)]
    tensors += [_constant(key, value.astype(np.float32)) for key, value in parameters.items()]
    inputs = ("x", *parameters)
    node = Node("norm", "batch_norm", inputs, ("y",), {"epsilon": 1e-5}, "BatchNormalization")
    return _graph(name, (node,), tensors, ("x",), "y", "onnx")


def patches_graph(name: str, shape: tuple[int, int, int], kernel: int, features: int) -> Graph:
    """Return CONV_2D whose stride is its kernel, the first layer of a vision transformer."""
    rng = np.random.default_rng(_SEED)
    height, width, channels = shape
    extents = (1, height // kernel, width // kernel, features)
    weight = rng.integers(-127, 128, (features, kernel, kernel, channels)).astype(np.int8)
    scales = rng.uniform(0.5, 2, features) * _WEIGHT_SCALE
    values = rng.integers(-(2**12), 2**12, features).astype(np.int32)
    tensors = [
        _activation("x", (1, *shape)),
        _constant("w", weight, scales, axis=0),
        _activation("y", extents, _SCALE * channels**0.5 * kernel),
        _constant("b", values, _SCALE * scales, axis=0),
    ]
    attributes = {
        "stride": (kernel, kernel),
        "dilation": (1, 1),
        "padding": (0, 0, 0, 0),
        "activation": "none",
    }
    node = Node("patches", "conv", ("x", "w", "b"), ("y",), attributes, "CONV_2D")
    return _graph(name, (node,), tensors, ("x",), "y")


def _activation(
    name: str, shape: tuple[int, ...], scale: float = _SCALE, zero_point: int = 3
) -> Tensor:
    return Tensor(name, shape, "int8", _quantization([scale], zero_point))


def _constant(
    name: str, data: np.ndarray, scales: Sequence[float] | np.ndarray = (), axis: int | None = None
) -> Tensor:
    quantization = _quantization(scales, 0, axis) if len(scales) else None
    return Tensor(name, data.shape, str(data.dtype), quantization, data)


def _quantization(
    scales: Sequence[float] | np.ndarray, zero_point: int, axis: int | None = None
) -> Quantization:
    scale = np.asarray(scales, np.float32)
    return Quantization(scale, np.full(len(scale), zero_point, np.int64), axis)


def _graph(
    name: str,
    nodes: tuple[Node, ...],
    tensors: list[Tensor],
    inputs: tuple[str, ...],
    output: str,
    file_format: str = _FORMAT,
) -> Graph:
    return Graph(
        name, nodes, {tensor.name: tensor for tensor in tensors}, inputs, (output,), file_format
    )
