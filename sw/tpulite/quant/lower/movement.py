"""Nodes that only move numbers, as rows, columns and channels that are picked.

What a node does is found out from its rule: it moves the numbers of the elements of its input.
"""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tpulite.graph.data_movement import DATA_MOVEMENT
from tpulite.graph.graph import Node
from tpulite.graph.layers import Concat, DepthToSpace, Pick
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.matrices import lower_transpose
from tpulite.quant.tensors import UnsupportedError, image_axis, image_shape

MOVEMENT = (
    *("slice", "strided_slice", "split", "split_v", "unpack", "reverse", "mirror_pad", "tile"),
    *("resize_bilinear", "resize_nearest", "space_to_depth", "transpose", "pick"),
    *("space_to_batch", "batch_to_space", "gather", "broadcast_to"),
)
"""Operators that :func:`lower_movement` takes."""

_MOST = 1 << 26
"""Elements of larger tensors are not counted."""

_FLOAT = (Exactness.LITERT_REF, Exactness.TFLM)
"""Kernels that find the nearest pixel in floats."""

Numbers = np.ndarray


def spread(context: GraphContext, source: str, target: str, shape: tuple[int, ...]) -> None:
    """Repeat the elements of a tensor along axes where it has one, up to another tensor's shape.

    Parameters
    ----------
    source, target : str
        The tensor, and the activation to make.
    shape : tuple of int
        Shape of the other tensor.
    """
    own = context.tensor(source).shape
    numbers = np.arange(math.prod(own)).reshape(own)
    try:
        wide = np.broadcast_to(numbers, shape).reshape(image_shape(shape))
    except ValueError as error:
        raise UnsupportedError(
            f"{source!r} of shape {list(own)} cannot be broadcast to {list(shape)}"
        ) from error
    # As a copy: NumPy's unravel_index reads past views that repeat their elements.
    y, x, channels = np.unravel_index(np.ascontiguousarray(wide), context.read(source).shape)
    context.declare(target, wide.shape)
    context.emit(Pick, target, (source,), target, **_fields(y[..., 0], x[..., 0], channels))


def lower_movement(node: Node, context: GraphContext) -> None:
    """Lower what picks rows, columns and channels of one tensor.

    Raises
    ------
    UnsupportedError
        If the elements of vectors go different ways, or where they go is not known.
    """
    node = replace(
        node, attributes={**node.attributes, "fixed_point": context.exactness not in _FLOAT}
    )
    if node.op not in DATA_MOVEMENT[context.graph.format]:
        raise UnsupportedError(f"unsupported operator {node.op}")
    computed = [name for name in node.inputs if context.tensor(name).data is None]
    if len(computed) != 1:
        raise UnsupportedError("its indices or shapes are computed at run time")
    (source,) = computed
    if node.op == "gather" and (source != node.inputs[0] or node.attributes.get("batch_dims", 0)):
        raise UnsupportedError("its indices are computed at run time")
    if node.op == "transpose" and not _swaps(node, context.tensor(source).shape):
        lower_transpose(node, context)
        return
    wide = context.tensor(source).dtype == "int16"
    context.read(source)
    for name, numbers in zip(node.outputs, _moved(node, source, context), strict=True):
        same = source if wide else context.requantized(node, source, name)
        label = f"{node.name}:{name}" if len(node.outputs) > 1 else node.name
        _pick(numbers.reshape(image_shape(numbers.shape)), label, (same, name), context, wide=wide)


def lower_depth_to_space(node: Node, context: GraphContext) -> None:
    """Lower what makes squares of pixels of the channels of each."""
    target = node.outputs[0]
    source = context.requantized(node, node.inputs[0], target)
    context.read(source)
    channels, block = context.write(target).shape[2], (node["block"],) * 2
    context.emit(DepthToSpace, node.name, (source,), target, block=block, channels=channels)


def lower_pack(node: Node, context: GraphContext) -> None:
    """Lower tensors that become one with another axis: a concatenation."""
    target, shape = node.outputs[0], context.tensor(node.outputs[0]).shape
    axis = image_axis(shape, node["axis"])
    part = list(image_shape(shape))
    part[axis] = 1
    sources = []
    for index, name in enumerate(node.inputs):
        source = context.requantized(node, name, target)
        image = context.read(source)
        if image.shape != tuple(part):
            shaped = f"{node.name}/{index}"
            context.declare(shaped, (part[0], part[1], part[2]))
            context.reshape(shaped, source, shaped)
            source = shaped
        sources.append(source)
    context.write(target)
    context.emit(Concat, node.name, tuple(sources), target, axis=axis)


def _moved(node: Node, source: str, context: GraphContext) -> list[Numbers]:
    """Return for each output which element of the source each of its elements is."""
    tensors = [context.tensor(name) for name in node.inputs]
    outputs = [context.tensor(name) for name in node.outputs]
    sizes = [math.prod(tensor.shape) for tensor in (*tensors, *outputs)]
    if max(sizes) > _MOST:
        raise UnsupportedError(f"a tensor has {max(sizes)} elements, more than {_MOST}")
    shape = context.tensor(source).shape
    numbers = np.arange(math.prod(shape)).reshape(shape)
    values = [numbers if each.data is None else each.data for each in tensors]
    try:
        results = DATA_MOVEMENT[context.graph.format][node.op](node, values, outputs)
    except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
        raise UnsupportedError(str(error)) from error
    shapes = [result.shape for result in results]
    if shapes != [output.shape for output in outputs]:
        raise UnsupportedError(
            f"its outputs have shapes {shapes}, not {[each.shape for each in outputs]}"
        )
    return results


def _swaps(node: Node, shape: tuple[int, ...]) -> bool:
    """Return whether a permutation swaps height and width, and both are more than 1."""
    perm, rank = tuple(node["perm"]), len(shape)
    swapped = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
    return rank >= 3 and perm == swapped and min(shape[-3:-1]) > 1


def _pick(
    numbers: Numbers, label: str, ends: tuple[str, str], context: GraphContext, *, wide: bool
) -> None:
    """Emit picks; channels of different pixels are picked one after the other, and joined.

    Of int16 (``wide``) the columns of pixels are pairs.
    """
    source, target = ends
    height, width, depth = context.activations[source].shape
    y, x, channels = np.unravel_index(numbers, (height, width // (1 + wide), depth))
    other = (np.diff(y, axis=2) != 0) | (np.diff(x, axis=2) != 0)
    starts = [0, *(np.flatnonzero(other.any(axis=(0, 1))) + 1).tolist(), numbers.shape[2]]
    parts, made = [slice(a, b) for a, b in pairwise(starts)], []
    for part in parts:
        name = label if len(parts) == 1 else f"{label}/{part.start}"
        output = target if len(parts) == 1 else name
        fields = _fields(y[..., part.start], x[..., part.start], channels[..., part])
        if wide:
            fields = _of_pairs(fields)
        if len(parts) == 1:
            context.write(target)
        else:
            rows, columns, count = numbers[..., part].shape
            context.declare(output, (rows, columns * (1 + wide), count))
        context.emit(Pick, name, (source,), output, **fields)
        made.append(output)
    if len(parts) > 1:
        context.write(target)
        context.emit(Concat, label, tuple(made), target, axis=2)


def _of_pairs(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a pick of pixels whose columns are pairs."""
    if fields["transposed"]:
        raise UnsupportedError("height and width of int16 change places")
    columns = tuple(2 * column + half for column in fields["columns"] for half in (0, 1))
    return {**fields, "columns": columns}


def _fields(y: Numbers, x: Numbers, channels: Numbers) -> dict[str, Any]:
    """Return the fields of a pick that moves pixels (y, x) and their channels.

    Raises
    ------
    UnsupportedError
        If rows and columns are not picked independently, or each pixel has other channels.
    """
    if not (channels == channels[0, 0]).all():
        raise UnsupportedError("it moves the channels of each pixel differently")
    fields = {"channels": tuple(channels[0, 0].tolist())}
    for transposed, (rows, columns) in ((False, (y, x)), (True, (y.T, x.T))):
        if (rows == rows[:, :1]).all() and (columns == columns[:1]).all():
            lines = tuple(rows[:, 0].tolist()), tuple(columns[0].tolist())
            return {**fields, "rows": lines[0], "columns": lines[1], "transposed": transposed}
    raise UnsupportedError("it moves elements across rows and columns")
