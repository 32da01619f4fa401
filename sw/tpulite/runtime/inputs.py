"""Inputs of networks: random ones for comparisons, and checks of those that users give."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from tpulite.frontend.onnx.signs import was_int8
from tpulite.graph.graph import Graph, Quantization, Tensor
from tpulite.quant.exactness import Exactness
from tpulite.runtime.host.ops import quantize

_INTEGERS = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
"""Of inputs that are integers and nothing else."""

_POSITIONS = {"gather": 1, "gatherelements": 1, "embedding_lookup": 0}
"""Operators that take numbers out of a table, and which input has the positions; one is the other.
"""

_SAME_NUMBERS = {"reshape", "transpose", "cast", "squeeze", "unsqueeze", "expand_dims", "slice"}
"""Operators whose integers are those that they get."""

_CHOICES = {"select", "select_v2", "where"}
"""Operators whose integers are those of one of their inputs behind the first."""

_COARSE = 4
"""Extent of the squares of one value in every other random image."""


def random_inputs(graph: Graph, count: int, seed: int) -> dict[str, np.ndarray]:
    """Draw inputs, the same ones for the same seed.

    Integers cover their whole range, and those that are positions in a table its extent; floats
    that the network quantizes cover what the quantized ones can hold, and a little more. Every
    other image is coarse, as photographs are, so that sums of neighbors are not always near their
    mean.

    Parameters
    ----------
    count : int
        How many inputs, along the first axis: a batch of the file is one input.

    Returns
    -------
    dict of str to ndarray
        Inputs by name, [count * batch, ...]; scalars are [count].
    """
    rng = np.random.default_rng(seed)
    return {
        name: np.concatenate(
            [np.atleast_1d(_draw(graph, name, rng, i % 2 == 1)) for i in range(count)]
        )
        for name in graph.inputs
    }


def check_inputs(
    graph: Graph, inputs: np.ndarray | Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], int]:
    """Check names, dtypes and shapes of inputs.

    Parameters
    ----------
    inputs : ndarray or mapping of str to ndarray
        Inputs by name, the array alone if there is only one; one input in the file's shape, or
        several along the first axis, [count * batch, ...] or [count, batch, ...], [count] of a
        scalar.

    Returns
    -------
    inputs : dict of str to ndarray
        Inputs by name, [count, *shape].
    count : int
        How many inputs there are.

    Raises
    ------
    ValueError
        If one is missing, unknown, or has a wrong dtype or shape.
    """
    if isinstance(inputs, np.ndarray):
        if len(graph.inputs) > 1:
            raise ValueError(f"there are several inputs, {sorted(graph.inputs)}: give them by name")
        inputs = dict.fromkeys(graph.inputs, inputs)
    if inputs.keys() != set(graph.inputs):
        raise ValueError(f"Inputs must be {sorted(graph.inputs)}, not {sorted(inputs)}")
    given, counts = {}, set()
    for name in graph.inputs:
        tensor, values = graph.tensors[name], np.asarray(inputs[name])
        if values.dtype != tensor.dtype:
            raise ValueError(f"Input {name!r} must be {tensor.dtype}, not {values.dtype}")
        given[name] = values
        if values.shape != tensor.shape or tensor.shape[:1] != (0,):
            counts.add(_count(values, tensor))
    if len(counts) > 1:
        raise ValueError(f"all inputs must have the same number, not {sorted(counts)}")
    count = counts.pop() if counts else 1
    shapes = {name: (count, *graph.tensors[name].shape) for name in given}
    return {name: values.reshape(shapes[name]) for name, values in given.items()}, count


def as_inputs(values: np.ndarray, tensor: Tensor, exact: Exactness) -> tuple[np.ndarray, str]:
    """Turn numbers into the dtype of an input: floats are quantized, integers must fit.

    Parameters
    ----------
    exact : Exactness
        Whose rounding quantizes floats.

    Returns
    -------
    values : ndarray
        In the dtype of the input.
    remark : str
        What was done, in words; nothing if they had that dtype.

    Raises
    ------
    ValueError
        If they are no numbers, the input has no scale, or integers do not fit.
    """
    name, dtype = f"input {tensor.name!r}", np.dtype(tensor.dtype)
    if values.dtype == dtype:
        return values, ""
    if values.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be numbers, not {values.dtype}")
    if dtype.kind == "f":
        return values.astype(dtype), f"{values.dtype} converted to {dtype}"
    if values.dtype.kind == "f":
        q = tensor.quantization
        if q is None or q.axis is not None or not np.isfinite(values).all():
            what = (
                "they include NaN or infinite values"
                if q and q.axis is None
                else "it has no scale to quantize floats with"
            )
            raise ValueError(f"{name} is {dtype}, and the values are {values.dtype}: {what}")
        scale, zero = float(q.scale[0]), int(q.zero_point[0])
        said = f"{values.dtype} quantized as {name}: {dtype}, scale {scale:.6g}, zero point {zero}"
        return quantize_input(values, tensor, exact), said
    if values.dtype == np.int8 and dtype == np.uint8 and was_int8(tensor.name):
        return values.view(np.uint8) ^ 0x80, "int8 in the file, with 128 added"
    limits = np.iinfo(dtype)
    if values.size and (values.min() < limits.min or values.max() > limits.max):
        raise ValueError(
            f"{name} is {dtype}, {limits.min} to {limits.max}, and the values ({values.dtype}) are "
            f"{values.min()} to {values.max()}"
        )
    return values.astype(dtype), f"{values.dtype} converted to {dtype}"


def quantize_input(values: np.ndarray, tensor: Tensor, exact: Exactness) -> np.ndarray:
    """Quantize floats with the scale of an integer input; without one, they are its integers."""
    q = tensor.quantization or _INTEGERS
    return quantize(values, q, tensor.dtype, exact)


def input_range(graph: Graph, name: str) -> tuple[float, float]:
    """Return the least and the largest real number that an input can hold.

    Of floats: what the integers can hold that the network makes of them, 0 to 1 if it makes none.
    """
    tensor = graph.tensors[name]
    if np.issubdtype(tensor.dtype, np.integer):
        return _limits(tensor.quantization or _INTEGERS, tensor.dtype)
    return _quantized_range(graph, name) or (0.0, 1.0)


def _count(values: np.ndarray, tensor: Tensor) -> int:
    if not tensor.shape and values.ndim < 2 and values.size:
        return values.size
    batch = tensor.shape[0] if tensor.shape else 1
    if not values.size and math.prod(tensor.shape[1:]):
        raise ValueError(
            f"Input {tensor.name!r} has no elements: its shape is {list(values.shape)}"
        )
    if tensor.shape and values.shape[1:] == tensor.shape and batch:
        return values.shape[0]  # as samples of quantize may be
    fits = values.shape[1:] == tensor.shape[1:] and values.ndim == len(tensor.shape)
    if not fits or not batch or values.shape[0] % batch:
        shape = ", ".join(str(extent) for extent in tensor.shape[1:])
        multiple = "n" if batch == 1 else f"n * {batch}"
        raise ValueError(
            f"Input {tensor.name!r} must have shape [{multiple}, {shape}], not {list(values.shape)}"
        )
    return values.shape[0] // batch


def _draw(graph: Graph, name: str, rng: np.random.Generator, coarse: bool) -> np.ndarray:
    tensor = graph.tensors[name]
    if (said := _shape_of_output(graph, name)) is not None:
        return said.astype(tensor.dtype)
    shape = tensor.shape
    image = coarse and len(shape) == 4
    drawn = (shape[0], *(-(-n // _COARSE) for n in shape[1:3]), shape[3]) if image else shape
    if np.issubdtype(tensor.dtype, np.integer):
        low, high = _integer_range(graph, name)
        values = rng.integers(low, high, drawn, np.dtype(tensor.dtype), endpoint=True)
    elif tensor.dtype == "bool":
        values = rng.integers(0, 2, drawn).astype(bool)
    else:
        low, high = _range(graph, name)
        values = rng.uniform(low, high, drawn).astype(tensor.dtype)
    if image:
        values = values.repeat(_COARSE, axis=1).repeat(_COARSE, axis=2)
        values = values[:, : shape[1], : shape[2]]
    return values


def _shape_of_output(graph: Graph, name: str) -> np.ndarray | None:
    """Return the only value of an input that says the shape of a result, which the file knows."""
    for node in graph.nodes:
        if name == node.attributes.get("said_by"):
            return np.array(graph.tensors[node.outputs[0]].shape)
    return None


def _integer_range(graph: Graph, name: str) -> tuple[int, int]:
    """Return the least and the largest integer that an input can be: a position is in its table."""
    extents = list(_tables(graph, name))
    limits = np.iinfo(graph.tensors[name].dtype)
    return (0, min(*extents, limits.max + 1) - 1) if extents else (limits.min, limits.max)


def _tables(graph: Graph, name: str) -> Iterator[int]:
    """Yield the extents of the tables in which a tensor gives positions, as it is or reshaped."""
    alike = _alike(graph, name)
    for node in graph.nodes:
        index = _POSITIONS.get(node.op)
        if index is not None and len(node.inputs) > index and node.inputs[index] in alike:
            shape = graph.tensors[node.inputs[1 - index]].shape
            axis = int(node.attributes.get("axis", 0))
            if -len(shape) <= axis < len(shape) and shape[axis]:
                yield shape[axis]


def _alike(graph: Graph, name: str) -> set[str]:
    """Return the tensors that hold numbers of an input, perhaps in another order or shape."""
    alike = {name}
    for node in graph.nodes:
        same = node.inputs[:1] if node.op in _SAME_NUMBERS else ()
        if node.op in _CHOICES:  # embeddings of Keras add the extent to what is negative
            same = node.inputs[1:]
        if not alike.isdisjoint(same):
            alike.update(node.outputs)
    return alike


def _range(graph: Graph, name: str) -> tuple[float, float]:
    """Return the range of the integers that a float input becomes, a hundredth added."""
    every = (_quantized_range(graph, each) for each in sorted(_alike(graph, name)))
    if (ends := next((found for found in every if found), None)) is None:
        return -1.0, 1.0
    low, high = ends
    margin = (high - low) / 100
    return low - margin, high + margin


def _quantized_range(graph: Graph, name: str) -> tuple[float, float] | None:
    for node in graph.nodes:
        output = graph.tensors[node.outputs[0]]
        if node.op == "quantize" and node.inputs[0] == name and output.quantization is not None:
            return _limits(output.quantization, output.dtype)
    return None


def _limits(q: Quantization, dtype: str) -> tuple[float, float]:
    limits = np.iinfo(dtype)
    low, high = ((n - int(q.zero_point[0])) * float(q.scale[0]) for n in (limits.min, limits.max))
    return low, high
