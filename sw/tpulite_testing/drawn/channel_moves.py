"""TFLite files whose convolutions are joined by chains of moves of channels, drawn by a seed."""

from collections.abc import Callable

import numpy as np

from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.movement_cases import MovementCase
from tpulite_testing.files.tflite_builder import Builder

__all__ = ["MOVES", "channel_moves", "network_of_moves"]

_FEWEST, _MOST = 4, 100
"""Channels between which moves are drawn."""


def channel_moves(seed: int, moves: int = 4) -> MovementCase:
    """Draw a network of two convolutions, chains of moves between them, and convolutions behind."""
    draw = _Draw(seed)
    size = draw.choices.integer(1, 9), draw.choices.integer(1, 9)
    x = draw.b.input((1, *size, draw.choices.pick((3, 16, 24))), 0.05, 3)
    live = [draw.layer(x, draw.channels()), draw.layer(x, draw.channels())]
    for _ in range(moves):
        taken = live.pop(draw.choices.integer(0, len(live) - 1))
        made = MOVES[draw.choices.pick(sorted(MOVES))](draw, taken)
        if draw.choices.chance(30):
            made = [draw.layer(each, 0) for each in made]
        if draw.choices.chance(30):  # another reader
            made.append(taken)
        if draw.choices.chance(40) and live:
            made.append(draw.b.concat([made.pop(), live.pop(0)]))
        live += [each for each in made if _FEWEST <= draw.b.shape(each)[3] <= _MOST] or [taken]
    return draw.case([draw.layer(each, draw.choices.integer(1, 20)) for each in live])


def network_of_moves(shuffle: str, seed: int = 0) -> MovementCase:
    """Return units of ShuffleNetV2 with one spelling of the shuffle and split: one of ``MOVES``."""
    draw = _Draw(seed)
    x = draw.b.input((1, 8, 8, 16), 0.05, 3)
    y = draw.b.concat([draw.layer(x, 24), draw.layer(x, 24)])
    for _ in range(3):
        left, right = MOVES[shuffle](draw, y)
        right = draw.layer(draw.layer(draw.layer(right, 24), 0), 24)
        y = draw.b.concat([left, right])
    return draw.case([draw.layer(y, 8)])


class _Draw:
    """A file that grows."""

    def __init__(self, seed: int) -> None:
        self.b, self.choices = Builder(), Seeded(seed)
        self.rng = np.random.default_rng((seed, 2))

    def channels(self) -> int:
        return 4 * self.choices.integer(1, 12)

    def layer(self, x: int, outputs: int) -> int:
        """Add a convolution, or a depthwise one if there are no ``outputs``."""
        kernel, channels = self.choices.pick((1, 1, 3)), self.b.shape(x)[3]
        shape = (1, 3, 3, channels) if not outputs else (outputs, kernel, kernel, channels)
        weight = self.rng.integers(-127, 128, shape).astype(np.int8)
        products = np.prod(shape) / (outputs or channels)
        scale = 0.05 / 70 / 0.05 / float(products) ** 0.5
        bias = self.rng.integers(-999, 1000, outputs or channels).astype(np.int32)
        ends = {"weight_scale": scale, "scale": 0.05, "zero_point": 3}
        return self.b.conv(x, weight, bias, **ends, depthwise=not outputs)

    def order(self, count: int, of: int) -> list[int]:
        return self.rng.permutation(of)[:count].tolist()

    def known(self, *values: int) -> int:
        return self.b.constant(np.array(values, np.int32))

    def transpose(self, x: int, *perm: int) -> int:
        shape = [self.b.shape(x)[axis] for axis in perm]
        inputs, outputs = [x, self.known(*perm)], [self.b.like(x, shape)]
        return self.b.operator("TRANSPOSE", inputs, outputs, options_type="TransposeOptions")

    def gather(self, x: int, ids: list[int] | int, axis: int) -> int:
        shape = list(self.b.shape(x))
        shape[axis : axis + 1] = [] if isinstance(ids, int) else [len(ids)]
        indices = self.b.constant(np.array(ids, np.int32))
        options = {"options_type": "GatherOptions", "axis": axis, "batchDims": 0}
        return self.b.operator("GATHER", [x, indices], [self.b.like(x, shape)], **options)

    def case(self, outputs: list[int]) -> MovementCase:
        shapes = [self.b.shape(x) for x in self.b.inputs]
        values = tuple(self.rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes)
        return MovementCase(self.b.build(*outputs), values)


def _shuffle(draw: _Draw, x: int) -> list[int]:
    """Shuffle channels between groups, in tensors of five axes or of four."""
    batch, height, width, channels = draw.b.shape(x)
    groups = next(n for n in (*draw.choices.pick(((2, 3), (4, 2), (3, 4))), 1) if channels % n == 0)
    front = (batch, height, width) if draw.choices.chance(50) else (height, width)
    y = draw.b.reshape(x, (*front, groups, channels // groups))
    y = draw.transpose(y, *range(len(front)), len(front) + 1, len(front))
    return [draw.b.reshape(y, (batch, height, width, channels))]


def _halves(draw: _Draw, x: int) -> list[int]:
    """Shuffle channels between two groups, and split them."""
    batch, height, width, channels = draw.b.shape(x)
    if channels % 2:
        return [x]
    y = draw.b.reshape(x, (batch, height, width, 2, channels // 2))
    y = draw.transpose(y, 0, 1, 2, 4, 3)
    y = draw.b.reshape(y, (batch, height, width, channels))
    parts = [draw.b.like(x, (batch, height, width, channels // 2)) for _ in range(2)]
    inputs, options = [draw.known(3), y], {"options_type": "SplitOptions", "numSplits": 2}
    draw.b.operator("SPLIT", inputs, parts, **options)
    return parts


def _torch_halves(draw: _Draw, x: int) -> list[int]:
    """Shuffle and split as converted PyTorch does: channels first, and halves are gathered."""
    batch, height, width, channels = draw.b.shape(x)
    if channels % 2:
        return [x]
    y = draw.transpose(x, 0, 3, 1, 2)
    y = draw.b.reshape(y, (channels // 2, 2, height * width))
    y = draw.transpose(y, 1, 0, 2)
    y = draw.b.reshape(y, (2, batch, channels // 2, height, width))
    return [draw.transpose(draw.gather(y, half, 0), 0, 2, 3, 1) for half in range(2)]


def _gather(draw: _Draw, x: int) -> list[int]:
    """Gather channels, each once or some twice."""
    channels = draw.b.shape(x)[3]
    ids = draw.order(draw.choices.integer(_FEWEST, channels), channels)
    if draw.choices.chance(30):
        ids = draw.rng.integers(0, channels, len(ids)).tolist()
    return [draw.gather(x, ids, 3)]


def _pad(draw: _Draw, x: int) -> list[int]:
    pads = draw.choices.integer(0, 20), draw.choices.integer(0, 20)
    return [draw.b.pad(x, [(0, 0), (0, 0), (0, 0), pads])]


def _slice(draw: _Draw, x: int) -> list[int]:
    """Cut channels in two, or take every second one."""
    batch, height, width, channels = draw.b.shape(x)
    if draw.choices.chance(30):
        steps = [(0, channels, 2), (1, channels, 2)]
    else:
        cut = draw.choices.integer(1, channels - 1)
        steps = [(0, cut, 1), (cut, channels, 1)]
    made = []
    for begin, end, step in steps:
        ends = ((0, 0, 0, begin), (batch, height, width, end), (1, 1, 1, step))
        y = draw.b.like(x, (batch, height, width, len(range(begin, end, step))))
        inputs = [x, *(draw.known(*each) for each in ends)]
        options = {"options_type": "StridedSliceOptions"}
        made.append(draw.b.operator("STRIDED_SLICE", inputs, [y], **options))
    return made


MOVES: dict[str, Callable[[_Draw, int], list[int]]] = {
    "gather": _gather,
    "halves": _halves,
    "pad": _pad,
    "shuffle": _shuffle,
    "slice": _slice,
    "torch_halves": _torch_halves,
}
"""Moves of channels by name."""
