"""Nodes that only move numbers, as rows, columns and channels that are picked.

What a node does is found out from its rule: it moves the numbers of the elements of its input.
"""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tpulite.graph.data_movement import DATA_MOVEMENT, moved_input, places_of
from tpulite.graph.graph import Node
from tpulite.graph.layers import Concat, DepthToSpace, Pick, Reshape
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.matrices import check_not_at_end, image_axes, lower_transpose
from tpulite.quant.tensors import UnsupportedError, image_axis, image_shape

_OTHERS = {"argmax", "cast", "concat", "depth_to_space", "pack", "reshape"}
"""Operators that are lowered in another way, or not at all."""

MOVEMENT = tuple(sorted({*DATA_MOVEMENT["tflite"], *DATA_MOVEMENT["onnx"]} - _OTHERS))
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
    y, x, channels = places_of(wide, context.read(source).shape)
    context.declare(target, wide.shape)
    _emit(target, (source, target), (y[..., 0], x[..., 0], channels), context)


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
    source = moved_input(node)
    if computed != [source]:
        raise UnsupportedError("its indices or shapes are computed at run time")
    shape = context.tensor(source).shape
    if node.op == "transpose" and not _swaps(node, shape):
        check_not_at_end(node, context)
        if (found := image_axes(shape, node["perm"])) is not None:
            lower_transpose(node, *found, context)
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
    y, x, channels = places_of(numbers, (height, width // (1 + wide), depth))
    other = (np.diff(y, axis=2) != 0) | (np.diff(x, axis=2) != 0)
    starts = [0, *(np.flatnonzero(other.any(axis=(0, 1))) + 1).tolist(), numbers.shape[2]]
    parts, made = [slice(a, b) for a, b in pairwise(starts)], []
    for part in parts:
        name = label if len(parts) == 1 else f"{label}/{part.start}"
        output = target if len(parts) == 1 else name
        rows, columns, count = numbers[..., part].shape
        places = y[..., part.start], x[..., part.start], channels[..., part]
        if len(parts) == 1:
            context.write(target)
        else:
            context.declare(output, (rows, columns * (1 + wide), count))
        _emit(name, (source, output), places, context, wide=wide)
        made.append(output)
    if len(parts) > 1:
        context.write(target)
        context.emit(Concat, label, tuple(made), target, axis=2)


def _emit(
    name: str,
    ends: tuple[str, str],
    places: tuple[Numbers, Numbers, Numbers],
    context: GraphContext,
    *,
    wide: bool = False,
) -> None:
    """Emit a pick of pixels (y, x) and their channels.

    Where rows and columns are not picked independently, the pixels are rows of an image, or several
    in a row, wherever these stay together.

    Raises
    ------
    UnsupportedError
        If each pixel has other channels, or those of int16 go different ways.
    """
    (source, target), (y, x, each) = ends, places
    if not (each == each[0, 0]).all():
        raise UnsupportedError("it moves the channels of each pixel differently")
    channels = tuple(each[0, 0].tolist())
    for transposed, (rows, columns) in ((False, (y, x)), (True, (y.T, x.T))):
        if (rows == rows[:, :1]).all() and (columns == columns[:1]).all():
            if wide and transposed:
                raise UnsupportedError("height and width of int16 change places")
            picked = tuple(rows[:, 0].tolist()), tuple(columns[0].tolist())
            if wide:
                picked = picked[0], _pairs(picked[1])
            fields = dict(zip(("rows", "columns"), picked, strict=True), transposed=transposed)
            context.emit(Pick, name, (source,), target, channels=channels, **fields)
            return
    height, width, depth = context.activations[source].shape
    pixels = (y * (width // (1 + wide)) + x).reshape(-1)
    together = _together(pixels, height * width // (1 + wide))
    columns = tuple(range(together * (1 + wide)))
    rows = tuple((pixels[::together] // together).tolist())
    lines, picked = f"{name}/lines", f"{name}/picked"
    context.declare(lines, (height * width // len(columns), len(columns), depth))
    context.declare(picked, (len(rows), len(columns), len(channels)))
    context.emit(Reshape, lines, (source,), lines)
    context.emit(Pick, name, (lines,), picked, rows=rows, columns=columns, channels=channels)
    context.emit(Reshape, target, (picked,), target)


def _together(pixels: Numbers, count: int) -> int:
    """Return how many pixels stay next to each other, of as many wherever they come from."""
    starts = np.flatnonzero(np.diff(pixels, prepend=-2) != 1)
    return math.gcd(count, len(pixels), *starts.tolist(), *pixels[starts].tolist())


def _pairs(columns: tuple[int, ...]) -> tuple[int, ...]:
    """Return the columns of int16 in an image, whose bytes are pairs of columns."""
    return tuple(2 * column + half for column in columns for half in (0, 1))
