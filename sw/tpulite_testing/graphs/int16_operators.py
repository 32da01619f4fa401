"""Networks of one operator of LiteRT's int16, with shapes and attributes that are drawn."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from tpulite_testing.graphs.int16_blocks import DrawnBuilder

__all__ = ["OPERATORS"]


def _drawn(seed: int) -> tuple[DrawnBuilder, int]:
    """Return a model, and its input of a few rows, columns and channels."""
    m = DrawnBuilder(seed)
    height, width = (int(extent) for extent in m.rng.integers(2, 12, 2))
    channels = int(m.rng.choice([1, 3, 4, 16, 20, 33]))
    return m, m.input((1, height, width, channels), float(2.0 ** m.rng.uniform(-12, -8)))


def _scale(m: DrawnBuilder, x: int) -> float:
    """Return a scale around that of a tensor."""
    return float(m.tensors[x].quantization.scale[0]) * float(2.0 ** m.rng.uniform(-1, 1))


def _pair(m: DrawnBuilder, least: int, most: int) -> tuple[int, int]:
    first, second = (int(value) for value in m.rng.integers(least, most + 1, 2))
    return first, second


def _pad(seed: int, value: int | None = None) -> bytes:
    m, x = _drawn(seed)
    pairs = [(0, 0), _pair(m, 0, 3), _pair(m, 0, 3), (0, 0)]
    return m.build(m.pad(x, pairs, value))


def _concat(seed: int) -> bytes:
    m, x = _drawn(seed)
    axis = int(m.rng.integers(1, 4))
    shape = list(m.shape(x))
    shape[axis] = int(m.rng.integers(1, 30))
    other = m.input(shape, float(m.tensors[x].quantization.scale[0]))
    return m.build(m.concat([x, other, x], axis))


def _slice(seed: int) -> bytes:
    m, x = _drawn(seed)
    begin = [int(m.rng.integers(0, extent)) for extent in m.shape(x)]
    sizes = [int(m.rng.integers(1, n - a + 1)) for n, a in zip(m.shape(x), begin, strict=True)]
    return m.build(m.part(x, tuple(begin), tuple(sizes)))


def _strided_slice(seed: int) -> bytes:
    m, x = _drawn(seed)
    steps = [1, *_pair(m, 1, 3), 1]
    begin = [int(m.rng.integers(0, extent)) for extent in m.shape(x)]
    shape = [len(range(a, n, k)) for n, a, k in zip(m.shape(x), begin, steps, strict=True)]
    ends = [m.constant(np.array(each, np.int32)) for each in (begin, m.shape(x), steps)]
    y = m.like(x, shape)
    return m.build(m.operator("STRIDED_SLICE", [x, *ends], [y], options_type="StridedSliceOptions"))


def _split(seed: int) -> bytes:
    m, _ = _drawn(seed)
    axis, count = int(m.rng.integers(1, 4)), 3
    shape = [1, 3, 6, 12]
    x = m.input(shape, 0.01)
    m.inputs.remove(0)
    shape[axis] //= count
    parts = [m.like(x, shape) for _ in range(count)]
    where = m.constant(np.array(axis, np.int32))
    m.operator("SPLIT", [where, x], parts, options_type="SplitOptions", numSplits=count)
    return m.build(*parts)


def _between(seed: int, shape: tuple[int, ...], move: Callable[[DrawnBuilder, int], int]) -> bytes:
    """Return a network that moves what a convolution has made, and multiplies it again."""
    m = DrawnBuilder(seed)
    y = move(m, m.layer(m.input(shape, 2.0**-10), shape[3]))
    return m.build(m.layer(y, 4))


def _reshape(seed: int) -> bytes:
    shapes = [(1, 6, 4, 16), (1, 1, 24, 16), (1, 8, 6, 8), (1, 2, 6, 32), (1, 12, 4, 8)]
    return _between(
        seed, shapes[0], lambda m, x: m.reshape(x, shapes[1 + seed % (len(shapes) - 1)])
    )


def _transpose(seed: int) -> bytes:
    perm = [(0, 2, 1, 3), (0, 3, 2, 1), (0, 1, 3, 2), (0, 2, 3, 1)][seed % 4]

    def move(m: DrawnBuilder, x: int) -> int:
        y = m.like(x, [m.shape(x)[axis] for axis in perm])
        order = m.constant(np.array(perm, np.int32))
        return m.operator("TRANSPOSE", [x, order], [y], options_type="TransposeOptions")

    return _between(seed, (1, 5, 7, 12), move)


def _batch(seed: int) -> bytes:
    """Two feature maps of a batch, whose windows do not see each other."""
    m = DrawnBuilder(seed)
    x = m.input((2, 5, 6, 3), 2.0**-10)
    y = m.layer(x, 4, (3, 3), "RELU")
    return m.build(m.pool("MAX_POOL_2D", y, (2, 2), stride=(2, 2)))


def _relu(code: str) -> Callable[[int], bytes]:
    def build(seed: int) -> bytes:
        m, x = _drawn(seed)
        return m.build(m.unary(code, x, _scale(m, x)))

    return build


def _leaky(seed: int) -> bytes:
    m, x = _drawn(seed)
    options = {"options_type": "LeakyReluOptions", "alpha": float(m.rng.uniform(0, 1.5))}
    return m.build(m.unary("LEAKY_RELU", x, _scale(m, x), **options))


def _pool(code: str) -> Callable[[int], bytes]:
    def build(seed: int) -> bytes:
        m, x = _drawn(seed)
        _, height, width, _ = m.shape(x)
        window = int(m.rng.integers(1, height + 1)), int(m.rng.integers(2, width + 1))
        padding = "SAME" if code == "MAX_POOL_2D" and seed % 2 else "VALID"
        how = {"stride": _pair(m, 1, 3), "padding": padding}
        return m.build(
            m.pool(code, x, window, activation=str(m.rng.choice(["NONE", "RELU"])), **how)
        )

    return build


def _mean(seed: int) -> bytes:
    m, x = _drawn(seed)
    axes = [(1, 2), (1,), (2,)][seed % 3]
    return m.build(m.mean(x, axes, _scale(m, x), keep_dims=bool(seed % 2)))


def _extreme(code: str) -> Callable[[int], bytes]:
    def build(seed: int) -> bytes:
        m, x = _drawn(seed)
        channels = m.shape(x)[3]
        drawn = m.rng.integers(-(1 << 15), 1 << 15, channels).astype(np.int16)
        others = [
            lambda: m.input(m.shape(x), 0.01),
            lambda: m.constant(drawn, 0.01),
            lambda: m.constant(drawn[0], 0.01),
        ]
        y = others[seed % len(others)]()
        options = {"options_type": "MaximumMinimumOptions"}
        return m.build(m.operator(code, [x, y], [m.like(x, m.shape(x))], **options))

    return build


def _addition(code: str) -> Callable[[int], bytes]:
    def build(seed: int) -> bytes:
        m, x = _drawn(seed)
        scale = float(m.tensors[x].quantization.scale[0])
        other = scale * float(2.0 ** [m.rng.uniform(-8, 8), 0, m.rng.integers(-6, 7)][seed % 3])
        drawn = m.rng.integers(-(1 << 15), 1 << 15, m.shape(x)[3]).astype(np.int16)
        y = m.constant(drawn, other) if seed % 4 == 3 else m.input(m.shape(x), other)
        after = max(scale, other) * float(2.0 ** m.rng.uniform(-1, 1.5))
        activation = str(m.rng.choice(["NONE", "RELU", "RELU6"]))
        return m.build(m.elementwise(code, x, y, after, activation=activation))

    return build


def _depthwise(seed: int) -> bytes:
    m, x = _drawn(seed)
    stride, dilation = [((1, 1), (2, 3)), ((2, 2), (1, 1)), ((1, 1), (1, 1))][seed % 3]
    how = {"stride": stride, "dilation": dilation, "depthwise": True}
    return m.build(m.layer(x, m.shape(x)[3] * (1 + seed % 2), _pair(m, 1, 4), "RELU6", **how))


def _transposed(seed: int) -> bytes:
    m, x = _drawn(seed)
    stride = _pair(m, 1, 3)
    kernel = stride[0] + int(m.rng.integers(0, 3)), stride[1] + int(m.rng.integers(0, 3))
    return m.build(m.upsampled(x, int(m.rng.choice([1, 4, 17])), kernel, stride))


def _chain(seed: int) -> bytes:
    """Flatten between a convolution and dense layers, of sums that doubles and records scale."""
    m = DrawnBuilder(seed)
    sizes = [2 * 3 * 8, 5, 3]
    y = m.reshape(m.layer(m.input((1, 2, 3, 4), 2.0**-10), 8, relu="RELU"), (1, sizes[0]))
    for k, n in pairwise(sizes):
        weight = m.rng.integers(-1, 2, (n, k)).astype(np.int8)
        y = m.dense(y, weight, np.arange(n), weight_scale=0.1, scale=16 * _scale(m, y))
    return m.build(y)


OPERATORS: Mapping[str, Callable[[int], bytes]] = {
    "pad": _pad,
    "pad with a value": lambda seed: _pad(seed, -12345 + 999 * seed),
    "concatenation": _concat,
    "slice": _slice,
    "strided slice": _strided_slice,
    "split": _split,
    "reshape": _reshape,
    "transpose": _transpose,
    "batch": _batch,
    "relu": _relu("RELU"),
    "relu6": _relu("RELU6"),
    "leaky relu": _leaky,
    "average pool": _pool("AVERAGE_POOL_2D"),
    "max pool": _pool("MAX_POOL_2D"),
    "mean": _mean,
    "maximum": _extreme("MAXIMUM"),
    "minimum": _extreme("MINIMUM"),
    "addition": _addition("ADD"),
    "subtraction": _addition("SUB"),
    "depthwise": _depthwise,
    "transposed convolution": _transposed,
    "dense behind a reshape": _chain,
}
"""TFLite files by the name of what they have, each drawn by a seed."""
