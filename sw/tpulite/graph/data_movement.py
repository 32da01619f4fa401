"""Operators that move elements and compute nothing: exact whatever the integers mean."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tpulite.graph.graph import Node, Tensor

Rule = Callable[[Node, list[np.ndarray], list[Tensor]], list[np.ndarray]]
"""Computes the outputs of a node from its inputs and what its outputs are to be."""


def _reshape(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [values[0].reshape(outputs[0].shape)]


def _transpose(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [values[0].transpose(node.attributes.get("perm") or node["permutation"])]


def _concat(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.concatenate(values, axis=node["axis"])]


def _pack(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.stack(values, axis=node["axis"])]


def _gather(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    if node.attributes.get("batch_dims", 0):
        raise ValueError(f"batch_dims {node['batch_dims']} is not supported")
    return [np.take(values[0], values[1], axis=node["axis"])]


def _gather_nd(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    """Pick parts of a tensor, each by the positions of its first axes."""
    x, places = values
    axes = places.shape[-1]
    if axes > x.ndim or np.any((places < 0) | (places >= x.shape[:axes])):
        raise ValueError(f"not all of its indices are in the shape {list(x.shape)}")
    expect_shape((*places.shape[:-1], *x.shape[axes:]), outputs[0])
    return [x[tuple(np.moveaxis(places, -1, 0))]]


def _slice(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    """Cut a box out of a tensor: TFLite gives begin and size of each axis; -1 is all the rest."""
    begin, size = (array.reshape(-1).tolist() for array in values[1:3])
    box = [slice(b, None if n == -1 else b + n) for b, n in zip(begin, size, strict=True)]
    return [values[0][tuple(box)]]


def _strided_slice(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    x, *bounds = values
    begin, end, step = (array.reshape(-1).tolist() for array in bounds)
    index: list[Any] = []
    for i in range(len(begin)):

        def has(mask: str, i: int = i) -> bool:
            return bool(node.attributes.get(mask, 0) >> i & 1)

        if has("ellipsis_mask"):
            index.append(...)
        elif has("new_axis_mask"):
            index.append(None)
        elif has("shrink_axis_mask"):
            index.append(begin[i])
        else:
            stop = begin[i] + end[i] if node.attributes.get("offset", 0) else end[i]
            start = None if has("begin_mask") else begin[i]
            index.append(slice(start, None if has("end_mask") else stop, step[i]))
    return [x[tuple(index)]]


def _split(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    """Cut along an axis: TFLite's first input."""
    axis, x = values
    return np.split(x, len(outputs), axis=int(axis.reshape(-1)[0]))


def _pick(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    """Pick positions of each axis."""
    return [values[0][np.ix_(*node["indices"])]]


def _split_v(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    """Cut along an axis into parts of these sizes; one of them may be -1, all the rest."""
    x, sizes, axis = values[0], values[1].reshape(-1), int(values[2].reshape(-1)[0])
    sizes = np.where(sizes == -1, x.shape[axis] - sizes[sizes != -1].sum(), sizes)
    if len(sizes) != len(outputs) or sizes.min() < 0 or sizes.sum() != x.shape[axis]:
        raise ValueError(f"it cannot cut {x.shape[axis]} into {sizes.tolist()}")
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


def _unpack(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    parts = np.split(values[0], len(outputs), axis=node["axis"])
    return [part.squeeze(node["axis"]) for part in parts]


def _reverse(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.flip(values[0], tuple(values[1].reshape(-1).tolist()))]


def _mirror_pad(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    x, pads = values[0], values[1].tolist()
    shape = tuple(b + n + a for n, (b, a) in zip(x.shape, pads, strict=True))
    expect_shape(shape, outputs[0])
    return [np.pad(x, pads, mode="symmetric" if node["symmetric"] else "reflect")]


def _tile(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    x, counts = values[0], values[1].reshape(-1).tolist()
    expect_shape(tuple(n * count for n, count in zip(x.shape, counts, strict=True)), outputs[0])
    return [np.tile(x, counts)]


def _broadcast(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.broadcast_to(values[0], outputs[0].shape)]


def _space_to_depth(
    node: Node, values: list[np.ndarray], outputs: list[Tensor]
) -> list[np.ndarray]:
    x, block = values[0], max(1, node["block"])
    n, height, width, channels = x.shape
    split = x.reshape(n, height // block, block, width // block, block, channels)
    return [split.transpose(0, 1, 3, 2, 4, 5).reshape(outputs[0].shape)]


def _space_to_batch(
    node: Node, values: list[np.ndarray], outputs: list[Tensor]
) -> list[np.ndarray]:
    """Make images of the phases of others; padding is none of their elements."""
    x, block, pads = values[0], values[1].tolist(), values[2]
    if pads.any():
        raise ValueError("it pads the images of a batch")
    axes, rest = range(1, len(block) + 1), x.shape[len(block) + 1 :]
    pairs = [
        n for axis, step in zip(axes, block, strict=True) for n in (x.shape[axis] // step, step)
    ]
    split = x.reshape(x.shape[0], *pairs, *rest)
    places, phases = [2 * axis - 1 for axis in axes], [2 * axis for axis in axes]
    last = range(1 + len(pairs), split.ndim)
    return [split.transpose(*phases, 0, *places, *last).reshape(outputs[0].shape)]


def _batch_to_space(
    node: Node, values: list[np.ndarray], outputs: list[Tensor]
) -> list[np.ndarray]:
    """Put images side by side as the phases of others, and crop these."""
    x, block, crops = values[0], values[1].tolist(), values[2].tolist()
    count = len(block)
    split = x.reshape(*block, -1, *x.shape[1:])
    order = [count, *(i for axis in range(count) for i in (count + 1 + axis, axis))]
    whole = split.transpose(*order, *range(2 * count + 1, split.ndim))
    sides = (n * step for n, step in zip(x.shape[1:], block, strict=False))
    whole = whole.reshape(split.shape[count], *sides, *x.shape[count + 1 :])
    kept = [slice(a, whole.shape[i] - b) for i, (a, b) in enumerate(crops, 1)]
    return [whole[(slice(None), *kept)]]


def _depth_to_space(
    node: Node, values: list[np.ndarray], outputs: list[Tensor]
) -> list[np.ndarray]:
    x, block = values[0], max(1, node["block"])
    n, height, width, channels = x.shape
    split = x.reshape(n, height, width, block, block, channels // block**2)
    return [split.transpose(0, 1, 3, 2, 4, 5).reshape(outputs[0].shape)]


def _resize_nearest(
    node: Node, values: list[np.ndarray], outputs: list[Tensor]
) -> list[np.ndarray]:
    """Repeat the nearest rows and columns, as LiteRT finds them in float32.

    Its optimized kernels (``fixed_point``) count in 16 fractional bits.
    """
    x, result = values[0], outputs[0].shape
    chosen = (_nearest(node, n, m) for n, m in zip(x.shape[1:3], result[1:3], strict=True))
    rows, columns = chosen
    return [x[:, rows][:, :, columns]]


def _nearest(node: Node, inputs: int, outputs: int) -> np.ndarray:
    corners, centers = node["align_corners"], node["half_pixel_centers"]
    positions = np.arange(outputs)
    if node.attributes.get("fixed_point") and not corners and not centers:
        return np.minimum(positions * ((inputs << 16) // outputs + 1) >> 16, inputs - 1)
    scale = np.float32(inputs) / np.float32(outputs)
    if corners and outputs > 1:
        scale = np.float32(inputs - 1) / np.float32(outputs - 1)
    offset = np.float32(0.5 if centers else 0)
    places = (positions.astype(np.float32) + offset) * scale
    places = np.floor(places.astype(np.float64) + 0.5) if corners else np.floor(places)
    return np.clip(places.astype(np.int64), 0, inputs - 1)


def _resize_bilinear(
    node: Node, values: list[np.ndarray], outputs: list[Tensor]
) -> list[np.ndarray]:
    """Move pixels where interpolation has none to mix; raise ValueError elsewhere.

    LiteRT's integer kernel counts in 10 fractional bits; its others are exact at pixels, too.
    """
    x, result = values[0], outputs[0].shape
    chosen = pixels_of_resize(node, x.shape[1:3], result[1:3])
    if chosen is None:
        raise ValueError("some of its results lie between pixels")
    rows, columns = chosen
    return [x[:, rows][:, :, columns]]


def pixels_of_resize(
    node: Node, before: Sequence[int], after: Sequence[int]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the rows and columns of a bilinear resize; None if it mixes some."""
    rows, columns = (_exact_pixels(node, n, m) for n, m in zip(before, after, strict=True))
    return None if rows is None or columns is None else (rows, columns)


def _exact_pixels(node: Node, inputs: int, outputs: int) -> np.ndarray | None:
    scale = ((inputs << 10) + outputs // 2) // outputs
    if node["align_corners"] and outputs > 1:
        scale = ((inputs - 1 << 10) + (outputs - 1) // 2) // (outputs - 1)
    places = np.arange(outputs) * scale
    if node["half_pixel_centers"]:
        places += scale // 2 - 512
    below = np.maximum(places, 0) >> 10
    above = np.minimum(np.maximum(places + 1023, 0) >> 10, inputs - 1)
    mixed = (below != above) & (places % 1024 != 0)
    return None if mixed.any() or (below >= inputs).any() else below


def expect_shape(shape: tuple[int, ...], tensor: Tensor) -> None:
    """Refuse a result before it takes memory."""
    if shape != tensor.shape:
        raise ValueError(f"its output must be {list(shape)}, not {list(tensor.shape)}")


def _cast(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [values[0].astype(outputs[0].dtype)]


def _argmax(node: Node, values: list[np.ndarray], outputs: list[Tensor]) -> list[np.ndarray]:
    return [np.asarray(values[0].argmax(axis=node["axis"]))]  # the first of equal ones


_COMMON: Mapping[str, Rule] = {
    "argmax": _argmax,
    "cast": _cast,
    "concat": _concat,
    "gather": _gather,
    "pack": _pack,
    "pick": _pick,
    "reshape": _reshape,
    "transpose": _transpose,
}

DATA_MOVEMENT: Mapping[str, Mapping[str, Rule]] = {
    "tflite": {
        **_COMMON,
        "batch_to_space": _batch_to_space,
        "broadcast_to": _broadcast,
        "depth_to_space": _depth_to_space,
        "gather_nd": _gather_nd,
        "mirror_pad": _mirror_pad,
        "resize_bilinear": _resize_bilinear,
        "resize_nearest": _resize_nearest,
        "reverse": _reverse,
        "slice": _slice,
        "space_to_batch": _space_to_batch,
        "space_to_depth": _space_to_depth,
        "split": _split,
        "split_v": _split_v,
        "strided_slice": _strided_slice,
        "tile": _tile,
        "unpack": _unpack,
    },
    "onnx": {
        **_COMMON,
        "depth_to_space": _depth_to_space,
        "space_to_depth": _space_to_depth,
    },
}
"""How each operator of a format moves elements."""


def moved_input(node: Node) -> str:
    """Return the input whose elements a node moves; others say where."""
    return node.inputs[1 if node.op == "split" else 0]


def places_of(numbers: np.ndarray, shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Return where elements of these numbers are along each axis of a tensor.

    NumPy's unravel_index (2.4) gives wrong places of more than 8192 elements whose last axis is 1.
    """
    places: list[np.ndarray] = []
    for extent in reversed(shape):
        numbers, place = np.divmod(numbers, extent)
        places.insert(0, place)
    return tuple(places)
