"""TFLite files of one operator that moves data, alone or between convolutions, drawn by a seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite.frontend.tflite.builder import ModelBuilder, schema

__all__ = ["MOVEMENT", "MovementCase", "movement_case"]


@dataclass(frozen=True, eq=False)
class MovementCase:
    """A file, and a value for each of its inputs."""

    model: bytes
    inputs: tuple[np.ndarray, ...]


def movement_case(op: str, seed: int, *, surrounded: bool = False) -> MovementCase:
    """Draw a case of an operator of :data:`MOVEMENT`; ``surrounded``: between convolutions."""
    draw = MovementDraw(op, seed, surrounded)
    _DRAWS[op](draw)
    outputs = [draw.after(y) for y in draw.made] if surrounded else draw.made
    shapes = [draw.model.shape(x) for x in draw.model.inputs]
    low = 0 if draw.model.dtype == "uint8" else -128
    values = (draw.rng.integers(low, low + 256, shape) for shape in shapes)
    inputs = tuple(value.astype(draw.model.dtype) for value in values)
    return MovementCase(draw.model.build(*outputs, name=f"{op}-{seed}"), inputs)


class MovementDraw:
    """A file that grows."""

    def __init__(self, op: str, seed: int, surrounded: bool) -> None:
        self.rng = np.random.default_rng([len(op), *op.encode(), seed, surrounded])
        plain = not (surrounded or "dilated" in op or op == "windows")
        unsigned = self.rng.random() < 0.2 and plain
        self.model = ModelBuilder("uint8" if unsigned else "int8")
        self.surrounded = surrounded
        self.made: list[int] = []

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def choice(self, *values: Any) -> Any:
        return values[self.integer(0, len(values) - 1)]

    def input(self, shape: Sequence[int] = ()) -> int:
        """Add the tensor that is moved."""
        channels = self.choice(1, 3, 16, 32, 64, self.integer(1, 40))
        shape = shape or (1, self.integer(2, 12), self.integer(2, 12), channels)
        low = 0 if self.model.dtype == "uint8" else -128
        x = self.model.input(tuple(shape), 0.05, low + self.integer(0, 255))
        return self.convolved(x, shape[3]) if self.surrounded else x

    def convolved(self, x: int, channels: int, kernel: int = 1, *, same: bool = True) -> int:
        """Add a convolution with the scale of its input."""
        model, (batch, height, width, depth) = self.model, self.model.shape(x)
        weight = self.rng.integers(-127, 128, (channels, kernel, kernel, depth)).astype(np.int8)
        scale = 0.05 / 70 / kernel / depth**0.5
        w = model.constant(weight, np.full(channels, scale), np.zeros(channels, int))
        bias = self.rng.integers(-999, 1000, channels).astype(np.int32)
        b = model.constant(bias, np.full(channels, 0.05 * scale), np.zeros(channels, int))
        lost = 0 if same else kernel - 1
        y = model.like(x, (batch, height - lost, width - lost, channels))
        options = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        kind = schema.Padding.SAME if same else schema.Padding.VALID
        padding = {"options_type": "Conv2DOptions", "padding": kind}
        return model.operator("CONV_2D", [x, w, b], [y], **padding, **options)

    def after(self, y: int) -> int:
        """Let a convolution read a result, if it is an image."""
        if len(self.model.shape(y)) != 4 or self.rng.random() < 0.2:
            return y
        return self.convolved(y, self.integer(1, 20), self.choice(1, 3))

    def known(self, values: Any) -> int:
        return self.model.constant(np.asarray(values, np.int32))

    def add(self, code: str, inputs: Sequence[int], shapes: Sequence[Any], **options: Any) -> None:
        x = next(i for i in inputs if self.model.tensors[i].quantization is not None)
        outputs = [self.model.like(x, shape) for shape in shapes]
        self.model.operator(code, inputs, outputs, **options)
        self.made += outputs


def _slice(draw: MovementDraw) -> None:
    x = draw.input()
    shape = draw.model.shape(x)
    begin = [0 if draw.choice(0, 1) else draw.integer(0, n - 1) for n in shape]
    size = [draw.integer(1, n - b) for n, b in zip(shape, begin, strict=True)]
    if draw.choice(0, 1):
        size[3] = shape[3] - begin[3]
    asked = [-1 if b + n == m and draw.choice(0, 1) else n
             for b, n, m in zip(begin, size, shape, strict=True)]  # fmt: skip
    draw.add(
        "SLICE", [x, draw.known(begin), draw.known(asked)], [size], options_type="SliceOptions"
    )


def _strided_slice(draw: MovementDraw) -> None:
    x = draw.input()
    shape = draw.model.shape(x)
    begin, end, steps, result = [], [], [], []
    for axis, n in enumerate(shape):
        step = draw.choice(1, 1, 2, 3, -1) if axis in (1, 2) else 1
        a, b = sorted((draw.integer(0, n - 1), draw.integer(0, n - 1)))
        part = range(a, b + 1, step) if step > 0 else range(b, a - 1, step)
        if axis == 0 or draw.choice(0, 0, 1):
            part = range(n)
        begin.append(part.start)
        end.append(part.stop if part.stop >= 0 else -n - 1)
        steps.append(part.step)
        result.append(len(part))
    ends = [draw.known(each) for each in (begin, end, steps)]
    draw.add("STRIDED_SLICE", [x, *ends], [result], options_type="StridedSliceOptions")


def _split(draw: MovementDraw) -> None:
    axis, parts, each = draw.integer(1, 3), draw.integer(2, 4), draw.choice(1, 3, 8, 16, 32)
    extents = [1, *(draw.integer(1, 9) for _ in range(2)), draw.choice(8, 16, 33)]
    extents[axis] = parts * each
    x = draw.input(extents)
    part = [*extents[:axis], each, *extents[axis + 1 :]]
    inputs = [draw.known(axis - 4 if draw.choice(0, 1) else axis), x]
    draw.add("SPLIT", inputs, [part] * parts, options_type="SplitOptions", numSplits=parts)


def _split_v(draw: MovementDraw) -> None:
    axis = draw.integer(1, 3)
    sizes = [draw.choice(1, 2, 7, 16) for _ in range(draw.integer(2, 4))]
    extents = [1, *(draw.integer(1, 9) for _ in range(2)), draw.choice(8, 16, 33)]
    extents[axis] = sum(sizes)
    shapes = [[*extents[:axis], size, *extents[axis + 1 :]] for size in sizes]
    inputs = [draw.input(extents), draw.known(sizes), draw.known(axis)]
    draw.add("SPLIT_V", inputs, shapes, options_type="SplitVOptions", numSplits=len(sizes))


def _unpack(draw: MovementDraw) -> None:
    x, axis = draw.input(), draw.integer(1, 2)
    shape = list(draw.model.shape(x))
    part = shape[:axis] + shape[axis + 1 :]
    options = {"options_type": "UnpackOptions", "axis": axis, "num": shape[axis]}
    draw.add("UNPACK", [x], [part] * shape[axis], **options)


def _pack(draw: MovementDraw) -> None:
    shape = 1, draw.integer(1, 9), draw.choice(3, 16, 40)
    axis, count = draw.integer(1, 2), draw.integer(1, 4)
    first = draw.model.input(shape, 0.05, 3)
    others = [draw.model.input(shape, 0.05, 3) for _ in range(count - 1)]
    result = (*shape[:axis], count, *shape[axis:])
    options = {"options_type": "PackOptions", "axis": axis, "valuesCount": count}
    draw.add("PACK", [first, *others], [result], **options)


def _reverse(draw: MovementDraw) -> None:
    x = draw.input()
    axes = draw.choice([1], [2], [1, 2], [3])
    options = {"options_type": "ReverseV2Options"}
    draw.add("REVERSE_V2", [x, draw.known(axes)], [draw.model.shape(x)], **options)


def _mirror_pad(draw: MovementDraw) -> None:
    x, symmetric = draw.input(), draw.integer(0, 1)
    shape = draw.model.shape(x)
    most = [0, *(min(3, n - 1 + symmetric) for n in shape[1:3]), 0]
    pads = [[draw.integer(0, n), draw.integer(0, n)] for n in most]
    result = [n + sum(pad) for n, pad in zip(shape, pads, strict=True)]
    options = {"options_type": "MirrorPadOptions", "mode": symmetric}
    draw.add("MIRROR_PAD", [x, draw.known(pads)], [result], **options)


def _tile(draw: MovementDraw) -> None:
    x = draw.input()
    counts = [1, draw.integer(1, 3), draw.integer(1, 3), draw.choice(1, 1, 2)]
    result = [n * count for n, count in zip(draw.model.shape(x), counts, strict=True)]
    draw.add("TILE", [x, draw.known(counts)], [result], options_type="TileOptions")


def _broadcast(draw: MovementDraw) -> None:
    height, width = draw.choice((1, 1), (1, draw.integer(2, 9)), (draw.integer(2, 9), 1))
    channels = draw.choice(1, draw.integer(2, 40))
    x = draw.input((1, height, width, channels))
    wanted = draw.integer(2, 9), draw.integer(2, 9), draw.integer(2, 40)
    pairs = zip((height, width, channels), wanted, strict=True)
    result = [1, *(larger if n == 1 else n for n, larger in pairs)]
    options = {"options_type": "BroadcastToOptions"}
    draw.add("BROADCAST_TO", [x, draw.known(result)], [result], **options)


def _resize(draw: MovementDraw) -> None:
    x = draw.input()
    batch, height, width, channels = draw.model.shape(x)
    factor = draw.choice(2, 2, 3, 4)
    size = [height * factor, width * factor]
    if draw.choice(0, 1):
        size = [draw.integer(1, 30), draw.integer(1, 30)]
    corners, centers = draw.choice((False, False), (False, True), (True, False))
    options = {"options_type": "ResizeNearestNeighborOptions", "alignCorners": corners}
    options["halfPixelCenters"] = centers
    inputs = [x, draw.known(size)]
    draw.add("RESIZE_NEAREST_NEIGHBOR", inputs, [(batch, *size, channels)], **options)


def _resize_bilinear(draw: MovementDraw) -> None:
    """Most have nothing between pixels: one pixel, as many as before, every second one."""
    size, channels = [draw.integer(1, 9), draw.integer(1, 9)], draw.choice(1, 3, 16, 32, 20)
    shape, corners, centers = draw.choice(
        ((1, 1), *draw.choice((False, False), (False, True), (True, False))),
        ((size[0], 1), *draw.choice((False, False), (False, True), (True, False))),
        ((2 * size[0], 4 * size[1]), False, False),
        ((4 * size[0] - 3, 2 * size[1] - 1), True, False),
        ((draw.integer(2, 9), draw.integer(2, 9)), False, True),
    )
    inputs = [draw.input((1, *shape, channels)), draw.known(size)]
    options = {"options_type": "ResizeBilinearOptions", "alignCorners": corners}
    options["halfPixelCenters"] = centers
    draw.add("RESIZE_BILINEAR", inputs, [(1, *size, channels)], **options)


def _resize_between(draw: MovementDraw) -> None:
    """Draw bilinear interpolation by powers of two, and means of the pixels in the middle."""
    counts, channels = [draw.integer(1, 7), draw.integer(2, 7)], draw.choice(1, 3, 16, 32, 20)
    steps = draw.choice(1, 2, 4, 8, 16), draw.choice(2, 4, 8, 16)
    form = draw.choice("corners", "centers", "centers", "plain", "smaller")
    corners = form == "corners"
    if form == "centers":  # or weights take more than 8 bits
        steps = min(8, steps[0]), min(8, steps[1])
    if form == "smaller":
        steps = draw.integer(1, 4), draw.choice(2, 4)
    shape = [n + corners for n in counts]
    size = [n * step + corners for n, step in zip(counts, steps, strict=True)]
    shape, size = (size, shape) if form == "smaller" else (shape, size)
    inputs = [draw.input((1, *shape, channels)), draw.known(size)]
    options = {"options_type": "ResizeBilinearOptions", "alignCorners": corners}
    options["halfPixelCenters"] = form in ("centers", "smaller")
    draw.add("RESIZE_BILINEAR", inputs, [(1, *size, channels)], **options)


def _gather_nd(draw: MovementDraw) -> None:
    """Draw rows of a feature map, or pixels: anywhere, of one row, or of one column."""
    x = draw.input()
    _, height, width, channels = draw.model.shape(x)
    count, form = draw.integer(1, 9), draw.choice("rows", "pixels", "one row", "one column")
    rows, columns = draw.rng.integers(0, height, count), draw.rng.integers(0, width, count)
    if form == "one row":
        rows[:] = rows[0]
    if form == "one column":
        columns[:] = columns[0]
    places, rest = ([0 * rows, rows, columns], [channels])
    if form == "rows":
        places, rest = places[:2], [width, channels]
    inputs = [x, draw.known(np.stack(places, axis=-1)[np.newaxis])]
    draw.add("GATHER_ND", inputs, [(1, count, *rest)], options_type="GatherNdOptions")


def _windows(draw: MovementDraw) -> None:
    """Draw what attention within windows makes of a feature map: its squares, one by one."""
    model, channels = draw.model, draw.choice(3, 16, 20, 32)
    (rows, height), (columns, width) = ((draw.integer(1, 4), draw.integer(1, 4)) for _ in range(2))
    x = draw.convolved(draw.input((1, rows * height, columns * width, 8)), channels)
    shape, order = (rows, height, columns, width, channels), draw.choice([0, 2, 1, 3], [2, 0, 3, 1])
    order = [*order, 4]

    def reshaped(x: int, shape: Sequence[int]) -> int:
        inputs = [x, draw.known(shape)]
        return model.operator(
            "RESHAPE", inputs, [model.like(x, shape)], options_type="ReshapeOptions"
        )

    moved = model.like(x, [shape[axis] for axis in order])
    inputs = [reshaped(x, shape), draw.known(order)]
    model.operator("TRANSPOSE", inputs, [moved], options_type="TransposeOptions")
    y = reshaped(moved, (1, rows * columns, height * width, channels))
    draw.made.append(draw.convolved(y, draw.integer(1, 20)))


def _space_to_depth(draw: MovementDraw) -> None:
    block = draw.integer(2, 3)
    height, width, channels = draw.integer(1, 5), draw.integer(1, 5), draw.choice(1, 3, 16, 32, 20)
    x = draw.input((1, height * block, width * block, channels))
    result = (1, height, width, channels * block**2)
    options = {"options_type": "SpaceToDepthOptions", "blockSize": block}
    draw.add("SPACE_TO_DEPTH", [x], [result], **options)


def _depth_to_space(draw: MovementDraw) -> None:
    block = draw.integer(2, 3)
    height, width, channels = draw.integer(1, 7), draw.integer(1, 7), draw.choice(1, 3, 16, 32, 20)
    x = draw.input((1, height, width, channels * block**2))
    result = (1, height * block, width * block, channels)
    options = {"options_type": "DepthToSpaceOptions", "blockSize": block}
    draw.add("DEPTH_TO_SPACE", [x], [result], **options)


def _transpose(draw: MovementDraw) -> None:
    x = draw.input()
    batch, height, width, channels = draw.model.shape(x)
    inputs = [x, draw.known([0, 2, 1, 3])]
    options = {"options_type": "TransposeOptions"}
    draw.add("TRANSPOSE", inputs, [(batch, width, height, channels)], **options)


def _dilated(draw: MovementDraw) -> None:
    """Draw a convolution of the phases of an image: what is left of one with gaps."""
    block, kernel = [draw.integer(1, 3), draw.integer(2, 3)], draw.choice(1, 3)
    x = draw.input()
    _, height, width, channels = draw.model.shape(x)
    pads = []
    for extent, step in zip((height, width), block, strict=True):
        before = draw.integer(0, 3)
        least = max(0, kernel * step - extent - before)
        pads.append([before, least + -(extent + before + least) % step])
    sides = [
        (n + sum(pad)) // step for n, pad, step in zip((height, width), pads, block, strict=True)
    ]
    phases = draw.model.like(x, (block[0] * block[1], *sides, channels))
    options = {"options_type": "SpaceToBatchNDOptions"}
    inputs = [x, draw.known(block), draw.known(pads)]
    y = draw.model.operator("SPACE_TO_BATCH_ND", inputs, [phases], **options)
    y = draw.convolved(y, draw.integer(1, 40), kernel, same=draw.choice(False, False, True))
    _, *sides, channels = draw.model.shape(y)
    whole = [n * step for n, step in zip(sides, block, strict=True)]
    crops = [[draw.integer(0, min(2, (n - 1) // 2)) for _ in range(2)] for n in whole]
    shape = [n - sum(crop) for n, crop in zip(whole, crops, strict=True)]
    inputs = [y, draw.known(block), draw.known(crops)]
    options = {"options_type": "BatchToSpaceNDOptions"}
    draw.add("BATCH_TO_SPACE_ND", inputs, [(1, *shape, channels)], **options)


def _dilated_row(draw: MovementDraw) -> None:
    """Draw what Keras makes of a one-dimensional convolution with gaps."""
    step, width, channels = draw.integer(2, 4), draw.integer(6, 20), draw.choice(3, 16, 20)
    x = draw.input((1, width, 1, channels)) if draw.surrounded else 0
    model = draw.model
    if draw.surrounded:
        row = model.like(x, (1, width, channels))
        x = model.operator("SQUEEZE", [x], [row], options_type="SqueezeOptions", squeezeDims=[2])
    else:
        x = draw.input((1, width, channels))
    before = draw.integer(0, 2) * step
    after = -(width + before) % step
    length = (width + before + after) // step
    phases = model.like(x, (step, length, channels))
    inputs = [x, draw.known([step]), draw.known([[before, after]])]
    options = {"options_type": "SpaceToBatchNDOptions"}
    y = model.operator("SPACE_TO_BATCH_ND", inputs, [phases], **options)
    image = model.like(x, (step, 1, length, channels))
    options = {"options_type": "ExpandDimsOptions"}
    y = model.operator("EXPAND_DIMS", [y, draw.known(1)], [image], **options)
    y = draw.convolved(y, draw.integer(1, 40), draw.choice(1, 3))
    channels = model.shape(y)[3]
    rows = model.like(x, (step, length, channels))
    y = model.operator("SQUEEZE", [y], [rows], options_type="SqueezeOptions", squeezeDims=[1])
    inputs = [y, draw.known([step]), draw.known([[0, after]])]
    shape = (1, length * step - after, channels)
    draw.add("BATCH_TO_SPACE_ND", inputs, [shape], options_type="BatchToSpaceNDOptions")


_DRAWS: dict[str, Callable[[MovementDraw], None]] = {
    "depth_to_space": _depth_to_space,
    "dilated": _dilated,
    "dilated_row": _dilated_row,
    "gather_nd": _gather_nd,
    "mirror_pad": _mirror_pad,
    "pack": _pack,
    "resize_between": _resize_between,
    "resize_bilinear": _resize_bilinear,
    "resize_nearest": _resize,
    "reverse": _reverse,
    "slice": _slice,
    "space_to_depth": _space_to_depth,
    "split": _split,
    "split_v": _split_v,
    "strided_slice": _strided_slice,
    "tile": _tile,
    "transpose": _transpose,
    "unpack": _unpack,
    "widened": _broadcast,
    "windows": _windows,
}

MOVEMENT = tuple(_DRAWS)
"""Operators that can be drawn."""
