"""Cases of the vector path: sums and products, reductions, pools, functions, interpolation."""

from collections.abc import Iterator

import numpy as np

from tpulite_testing.sweep.case import SCALE, ZERO_POINT, Case, Net, alone, between, join

__all__ = ["vector_cases"]

Shape = tuple[int, ...]

_SUMS = """112x112x16 56x56x24 56x56x64 28x28x40 14x14x96 7x7x160 7x7x512 32x32x3 20x20x10 8x8x16
    1x128x384 1x1x256 28x28x24 28x28x25 28x28x32"""
_PRODUCTS = "56x56x24 14x14x96 7x7x512 20x20x10 1x128x384 1x1x256"
_CHANNELS = "56x56x64 28x28x72 14x14x480 7x7x960 14x14x100"
_BROADCASTS = (
    ("28x28x64", "28x28x1"),
    ("1x128x384", "1x128x1"),
    ("4x64x64", "1x64x64"),
    ("4x64x64", "1x1x64"),
    ("28x28x64", "1x28x64"),
    ("28x28x64", "28x1x64"),
)
_CONSTANTS = (("1x64x192", "1x64x192"), ("28x28x32", "1x1x1"))

_REDUCED = (
    ("7x7x1280", (1, 2)),
    ("7x7x512", (1, 2)),
    ("56x56x24", (1, 2)),
    ("28x28x72", (1, 2)),
    ("14x14x480", (1, 2)),
    ("14x14x96", (1, 2)),
    ("4x4x64", (1, 2)),
    ("25x5x64", (1, 2)),
    ("8x8x10", (1, 2)),
    ("28x28x64", (3,)),
    ("14x14x24", (3,)),
    ("7x7x17", (3,)),
    ("1x128x384", (3,)),
    ("1x64x192", (3,)),
    ("28x28x64", (1,)),
    ("28x28x64", (2,)),
    ("14x14x40", (1,)),
    ("14x14x40", (2,)),
    ("1x100x64", (2,)),
    ("1x197x64", (2,)),
    ("112x112x16", (1, 2)),
    ("256x128x3", (1, 2)),
    ("160x3x3", (2, 3)),
)

_POOLS = {
    ((2, 2), 2, "VALID"): "56x56x64 112x112x16 28x28x32 28x28x6 10x10x16 32x32x3 14x14x128"
    " 48x48x40 14x14x100",
    ((3, 3), 2, "SAME"): "112x112x64 28x28x17",
    ((3, 3), 1, "SAME"): "28x28x192 14x14x480 35x35x64",
    ((5, 5), 1, "SAME"): "13x13x256 20x20x128",
    ((9, 9), 1, "SAME"): "13x13x256",
    ((13, 13), 1, "SAME"): "13x13x256",
    ((4, 4), 4, "VALID"): "56x56x24",
    ((7, 7), 7, "VALID"): "7x7x512 7x7x1280",
    ((8, 8), 8, "VALID"): "8x8x64",
    ((25, 5), 1, "VALID"): "25x5x64",
    ((1, 2), 2, "VALID"): "1x200x64",
    ((1, 3), 3, "VALID"): "1x100x128",
    ((2, 2), 1, "SAME"): "10x10x512",
}

_SOFTMAX = """1x64x4 1x64x10 1x1x10 1x64x16 1x336x16 1x64x17 1x64x32 1x64x64 1x128x128 1x197x197
    1x64x256 1x16x1000 1x1x1000 8x64x64 12x49x49 1x64x100 1x64x1024 32x32x21 28x28x2 6x1x256
    64x64x19"""

_FUNCTIONS = {
    "LOGISTIC": (1 / 256, -128, {}),
    "TANH": (1 / 128, 0, {}),
    "HARD_SWISH": (SCALE, ZERO_POINT, {}),
    "LEAKY_RELU": (SCALE, ZERO_POINT, {"options_type": "LeakyReluOptions", "alpha": 0.1}),
}
_ALONE = "28x28x72 112x112x16 1x1x256 20x20x10"
_MORE_ALONE = "56x56x64 14x14x480 7x7x960 64x64x3"
_BETWEEN = "28x28x72 14x14x96 56x56x16 1x1x96 20x20x10"

_PRELU = "56x56x64 112x112x16 28x28x72 14x14x480 20x20x10 12x12x28 5x5x48"
_PRELU_BETWEEN = "28x28x72 56x56x16 20x20x10 10x10x32"

_RESIZED = """7x7x64:14x14 14x14x64:28x28 28x28x32:56x56 13x13x128:26x26 20x20x128:40x40
    10x10x40:20x20 56x56x16:112x112 8x8x24:16x16 4x4x100:8x8 16x16x10:64x64 33x33x21:65x65
    14x14x24:7x7 7x7x64:10x10 5x5x96:20x20 1x1x256:33x33 16x16x256:32x32"""


def vector_cases() -> Iterator[Case]:
    """Yield all of them."""
    yield from _binary_cases()
    for text, axes in _REDUCED:
        for operator in ("MEAN", "REDUCE_MAX", *(("SUM",) if axes == (1, 2) else ())):
            yield from _reduction(operator, _shape(text), axes)
    for operator in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        for (k, s, padding), texts in _POOLS.items():
            for text in texts.split():
                yield _pool(operator, _shape(text), k, s, padding)
    for text in _SOFTMAX.split():
        options = {"options_type": "SoftmaxOptions", "beta": 1.0}
        yield _function("SOFTMAX", _shape(text), (1 / 256, -128, options), between)
    for operator, how in _FUNCTIONS.items():
        more = _MORE_ALONE if operator in ("LOGISTIC", "HARD_SWISH") else ""
        for text in f"{_ALONE} {more}".split():
            yield _function(operator, _shape(text), how, alone)
        for text in (_BETWEEN if more else "").split():
            yield _function(operator, _shape(text), how, between)
    for text in _PRELU.split():
        yield alone("PRELU", _shape(text), _prelu)
    for text in _PRELU_BETWEEN.split():
        yield between("PRELU", _shape(text), _prelu)
    for pair in _RESIZED.split():
        yield from _resizes(*pair.split(":"))


def _shape(text: str) -> Shape:
    return (1, *map(int, text.split("x")))


def _binary_cases() -> Iterator[Case]:
    for operator in ("ADD", "MUL", "SUB"):
        for text in (_SUMS if operator == "ADD" else _PRODUCTS).split():
            yield _binary(operator, _shape(text), _shape(text))
        for text in _CHANNELS.split():
            if operator != "SUB" or text == "28x28x72":
                channels = _shape(text)[-1]
                yield _binary(operator, _shape(text), (1, 1, 1, channels))
                yield _binary(operator, _shape(text), (channels,), constant=True)
        for text, other in _BROADCASTS if operator != "SUB" else ():
            yield _binary(operator, _shape(text), _shape(other))
        for text, other in _CONSTANTS:
            yield _binary(operator, _shape(text), _shape(other), constant=True)
        shape = _shape("28x28x24")
        yield between(operator, shape, _operation(operator, shape), "with another")


def _binary(operator: str, shape: Shape, other: Shape, *, constant: bool = False) -> Case:
    if other == shape:
        form = "with a constant" if constant else "with another"
    else:
        form = f"with {'constant ' if constant else ''}{join(other)}"
    return alone(operator, shape, _operation(operator, other, constant=constant), form)


def _operation(operator: str, other: Shape, *, constant: bool = False):
    def make(net: Net, x: int) -> int:
        y = net.constant(net.weights(*other), SCALE, ZERO_POINT) if constant else net.image(other)
        return net.elementwise(operator, x, y, 0.1, 1)

    return make


def _reduction(operator: str, shape: Shape, axes: Shape) -> Iterator[Case]:
    extents = [1 if i in axes else n for i, n in enumerate(shape)]

    def make(net: Net, x: int) -> int:
        if operator == "MEAN":
            return net.mean(x, axes, SCALE, ZERO_POINT, keep_dims=True)
        scale, zero_point = (SCALE, ZERO_POINT) if operator == "REDUCE_MAX" else (1.0, 0)
        y = net.tensor(extents, scale, zero_point)
        options = {"options_type": "ReducerOptions", "keepDims": True}
        return net.operator(operator, [x, net.integers(*axes)], [y], **options)

    form = f"axes {','.join(map(str, axes))}"
    yield alone(operator, shape, make, form)
    if operator != "SUM" and shape[1] <= 28 and 3 < shape[-1] <= 128:
        yield between(operator, shape, make, form)


def _pool(operator: str, shape: Shape, k: tuple[int, int], s: int, padding: str) -> Case:
    stride = (1 if shape[1] == 1 else s, s)
    form = f"k{join(k)} s{s} {padding}"
    return alone(
        operator,
        shape,
        lambda net, x: net.pool(operator, x, k, stride=stride, padding=padding),
        form,
    )


def _function(operator: str, shape: Shape, how: tuple[float, int, dict], mode) -> Case:
    scale, zero_point, options = how
    return mode(
        operator, shape, lambda net, x: net.unary(operator, x, scale, zero_point, **options)
    )


def _prelu(net: Net, x: int) -> int:
    slopes = net.constant(net.weights(1, 1, net.shape(x)[-1]), 0.01, 0)
    return net.operator("PRELU", [x, slopes], [net.like_input(net.shape(x))])


def _resizes(text: str, target: str) -> Iterator[Case]:
    shape, size = _shape(text), tuple(map(int, target.split("x")))
    whole = all(n % m == 0 for n, m in zip(size, shape[1:3], strict=True))
    form = f"times {size[0] // shape[1]}" if whole else f"to {target}"

    def interpolate(net: Net, x: int, *, half: bool, operator: str = "Bilinear") -> int:
        codes = {"Bilinear": "RESIZE_BILINEAR", "NearestNeighbor": "RESIZE_NEAREST_NEIGHBOR"}
        return net.operator(
            codes[operator],
            [x, net.constant(np.array(size, np.int32))],
            [net.like(x, (1, *size, net.shape(x)[3]))],
            options_type=f"Resize{operator}Options",
            alignCorners=False,
            halfPixelCenters=half,
        )

    yield between(
        "RESIZE_NEAREST_NEIGHBOR",
        shape,
        lambda net, x: interpolate(net, x, half=False, operator="NearestNeighbor"),
        form,
    )
    yield between(
        "RESIZE_BILINEAR",
        shape,
        lambda net, x: interpolate(net, x, half=True),
        f"{form} half pixels",
    )
    if shape[1] < 20:
        yield between(
            "RESIZE_BILINEAR", shape, lambda net, x: interpolate(net, x, half=False), form
        )
