"""Chains of dense layers as arrays: W1, b1, scale1, W2 and so on, perhaps in a .npz file.

Layer i computes ``int8(scale_i * (x @ W_i + b_i))``, then a ReLU in all layers but the last. Such a
chain has no scales of activations. So these are 1, and the weights have the whole factor.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from tpulite.arrays import read_arrays
from tpulite.atomic import write_whole
from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.graph.verify import verify

_NAME = re.compile(r"(W|b|scale)([1-9]\d*)")

_FORM = "W1, b1, scale1, W2, b2, scale2, ... and optionally classes"


def dense_chain(
    weights: Sequence[np.ndarray],
    biases: Sequence[np.ndarray],
    scales: Sequence[ArrayLike],
    *,
    classes: int | None = None,
    name: str = "mlp",
) -> Graph:
    """Return a chain of dense layers, each of whose sums become int8 as ONNX Runtime makes them.

    Parameters
    ----------
    weights : sequence of ndarray of int8, [inputs, outputs]
        W of each layer.
    biases : sequence of ndarray of int32, [outputs] or [1, outputs]
        b of each layer.
    scales : sequence of float or ndarray of float32 or float64, one number or [outputs]
        The factor of each layer's sums, positive, rounded to float32. The product is rounded to
        float32, then half to even to an integer, and saturated.
    classes : int, optional
        How many of the last layer's outputs are classes, the first ones; all by default.
    name : str
        Name of the network.

    Returns
    -------
    Graph
        Its ``input`` and ``output`` are int8 [1, channels].

    Raises
    ------
    ValueError
        If there is no layer, or an array has another dtype or shape; the array is named first.
    """
    for kind, given, axes in (
        ("weights", weights, 3),
        ("biases", biases, 2),
        ("scales", scales, 1),
    ):
        if not isinstance(given, Sequence) and np.ndim(given) < axes:
            found = _described(np.asarray(given))
            raise ValueError(f"{kind} must be a list, with one for each layer, not {found}")
    if not len(weights) == len(biases) == len(scales):
        found = f"{len(weights)} weights, {len(biases)} biases and {len(scales)} scales"
        raise ValueError(f"each layer needs a weight, a bias and a scale, not {found}")
    if not weights:
        raise ValueError("there is no layer: W1 is missing")
    names = ["input", *(f"after dense{i}" for i in range(1, len(weights))), "output"]
    tensors, nodes, width = [], [], None
    for i, w, b, scale, (x, y) in zip(
        count(1), weights, biases, scales, pairwise(names), strict=False
    ):
        w = _weight(i, w, width)
        if width is None:
            tensors.append(Tensor(x, (1, len(w)), "int8", _quantization(np.ones(1, np.float32))))
        width = w.shape[1]
        layer = f"dense{i}"
        weight, bias = f"{layer}.weight", f"{layer}.bias"
        quantization = _quantization(_scale(i, scale, width))
        tensors += [
            Tensor(weight, w.T.shape, "int8", quantization, w.T),
            Tensor(bias, (width,), "int32", data=_bias(i, b, width)),
            Tensor(y, (1, width), "int8", _quantization(np.ones(1, np.float32))),
        ]
        activation = "none" if i == len(weights) else "relu"
        attributes = {"activation": activation}
        nodes.append(Node(layer, "dense", (x, weight, bias), (y,), attributes, "Dense"))
    by_name = {tensor.name: tensor for tensor in tensors}
    graph = Graph(name, tuple(nodes), by_name, ("input",), ("output",), "onnx", classes=classes)
    verify(graph)
    return graph


def load_dense_chain(data: bytes, name: str) -> Graph:
    """Read a .npz file with W1, b1, scale1 and so on, as :func:`save_dense_chain` writes it.

    Raises
    ------
    ValueError
        If an array is damaged, missing, unknown, or not as :func:`dense_chain` wants it.
    """
    try:
        arrays = read_arrays(data)
    except Exception as error:  # headers of arrays are evaluated as Python
        raise ValueError(
            f"the archive holds damaged arrays, or none of numbers: {error}"
        ) from error
    layers = [int(match[2]) for each in arrays if (match := _NAME.fullmatch(each))]
    if not layers:
        found = ", ".join(arrays) or "nothing"
        raise ValueError(f"the arrays of a network are {_FORM}; this file holds {found}")
    for each in arrays:
        if each != "classes" and not _NAME.fullmatch(each):
            raise ValueError(f"unknown array {each!r}; a network holds {_FORM}")
    for i in range(1, max(layers) + 1):
        for kind in ("W", "b", "scale"):
            if f"{kind}{i}" not in arrays:
                raise ValueError(f"{kind}{i} is missing: each layer has W, b and scale")
    weights, biases, scales = (
        [arrays[f"{kind}{i}"] for i in range(1, max(layers) + 1)] for kind in ("W", "b", "scale")
    )
    return dense_chain(weights, biases, scales, classes=_classes(arrays), name=name)


def save_dense_chain(path: Path, graph: Graph) -> None:
    """Write what :func:`dense_chain` returned as a .npz file; equal ones give equal bytes.

    W is int8 [inputs, outputs], b int32 [1, outputs], scale float32 [] or [outputs]; classes, if
    they are given, is an integer.
    """
    arrays: dict[str, np.ndarray] = {}
    for i, node in enumerate(graph.nodes, start=1):
        weight, bias = (graph.tensors[each] for each in node.inputs[1:])
        assert weight.data is not None and bias.data is not None and weight.quantization is not None
        arrays |= {
            f"W{i}": np.ascontiguousarray(weight.data.T),
            f"b{i}": bias.data[None],
            f"scale{i}": np.squeeze(weight.quantization.scale),
        }
    if graph.classes is not None:
        arrays["classes"] = np.array(graph.classes)

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    write_whole(path, save)


def _weight(i: int, array: np.ndarray, width: int | None) -> np.ndarray:
    """Check a weight, whose rows are the outputs of the layer before."""
    array = np.asarray(array)
    if array.dtype != np.int8 or array.ndim != 2 or not array.size:
        raise ValueError(f"W{i} must be int8 [inputs, outputs], not {_described(array)}")
    if width not in (None, len(array)):
        raise ValueError(
            f"W{i} must have {width} rows, as many as W{i - 1} has columns, not {len(array)}"
        )
    return array


def _bias(i: int, array: np.ndarray, width: int) -> np.ndarray:
    """Check a bias, and return it as [outputs]."""
    array = np.asarray(array)
    if array.dtype != np.int32 or array.shape not in ((width,), (1, width)):
        raise ValueError(f"b{i} must be int32 [{width}] or [1, {width}], not {_described(array)}")
    return array.reshape(-1)


def _scale(i: int, scale: ArrayLike, width: int) -> np.ndarray:
    """Check a scale, and return it as [1] or [outputs]."""
    array = np.atleast_1d(np.asarray(scale, float if type(scale) is int else None))
    if (
        array.dtype not in (np.float32, np.float64)
        or array.ndim != 1
        or len(array) not in (1, width)
    ):
        raise ValueError(
            f"scale{i} must be float32 or float64, one number or [{width}], not {_described(array)}"
        )
    with np.errstate(over="ignore"):  # infinity is refused
        array = array.astype(np.float32)
    if not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"scale{i} must be positive and finite, not {array.min():g}")
    return array


def _classes(arrays: Mapping[str, np.ndarray]) -> int | None:
    """Return the classes of a file, if it says how many there are."""
    if "classes" not in arrays:
        return None
    array = arrays["classes"]
    if array.size != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"classes must be one integer, not {_described(array)}")
    return int(array.reshape(-1)[0])


def _described(array: np.ndarray) -> str:
    return f"{array.dtype} {list(array.shape)}"


def _quantization(scale: np.ndarray) -> Quantization:
    points = np.zeros(len(scale), np.int64)
    return Quantization(scale.astype(np.float32), points, 0 if len(scale) > 1 else None)
