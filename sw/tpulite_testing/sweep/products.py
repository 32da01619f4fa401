"""Cases of the multipliers: convolutions, dense layers, products of activations."""

from collections.abc import Iterator

from tpulite_testing.sweep.case import SCALE, ZERO_POINT, Case, Net, alone

__all__ = ["product_cases"]


_CONVOLUTIONS = {
    ((3, 3), 1, 1): """
        32x32x3x16 28x28x48x48 28x28x10x10 28x28x12x12 28x28x17x17 28x28x8x8 7x7x512x512
        14x14x256x256 56x56x64x64 2x2x256x256 4x4x128x128 112x112x32x3 64x64x12x32 112x112x12x32
        10x10x3x3 256x256x4x16 128x128x16x16
        20x20x10x32 20x20x12x32 20x20x15x32 20x20x16x32 20x20x17x32 20x20x20x32 20x20x24x32
        20x20x31x32 20x20x32x32 20x20x33x32 20x20x40x32 20x20x47x32 20x20x48x32 20x20x49x32
        20x20x32x8 20x20x32x10 20x20x32x15 20x20x32x16 20x20x32x17 20x20x32x24 20x20x32x31
        20x20x32x33 4x4x32x32 5x5x32x32 7x7x32x32 8x8x32x32 9x9x32x32 13x13x32x32 16x16x32x32
        17x17x32x32 31x31x32x32 32x32x32x32 33x33x32x32 64x64x1x16 64x64x2x16 64x64x3x16
        64x64x4x16 64x64x5x16 64x64x6x16
        64x64x7x16 64x64x8x16 64x64x9x16""",
    ((3, 3), 2, 1): """224x224x3x32 96x96x3x8 160x160x3x16 96x96x1x8 320x320x3x8 320x320x3x16
        56x56x64x128""",
    ((3, 3), 3, 1): "20x20x64x64",
    ((3, 3), 1, 2): "33x33x64x64",
    ((3, 3), 1, 4): "33x33x64x64",
    ((1, 1), 1, 1): """112x112x16x24 56x56x24x144 56x56x144x24 28x28x40x240 28x28x192x32
        14x14x96x576 14x14x100x100 7x7x320x1280 7x7x160x960 1x1x512x512 1x1x1024x1000 5x5x512x512
        13x13x256x255 40x40x64x255 80x80x48x1 64x64x32x2 28x28x512x16 56x56x16x96""",
    ((1, 1), 2, 1): "56x56x64x128",
    ((7, 7), 2, 1): "224x224x3x64",
    ((4, 4), 4, 1): "224x224x3x96",
    ((16, 16), 16, 1): "224x224x3x192",
    ((10, 4), 2, 1): "49x10x1x64",
    ((5, 5), 1, 1): "28x28x1x6 14x14x6x16 20x20x40x40",
    ((1, 7), 1, 1): "17x17x128x128",
    ((7, 1), 1, 1): "17x17x128x128",
    ((1, 3), 1, 1): "1x100x64x64",
    ((1, 9), 1, 1): "1x512x40x40",
    ((1, 3), 1, 4): "1x256x32x32",
    ((1, 80), 4, 1): "1x1000x1x32",
    ((1, 8), 4, 1): "1x1000x8x32",
    ((2, 2), 2, 1): "28x28x64x64 16x16x96x192",
}
"""Extents [height, width, channels, outputs] by kernel, stride and dilation."""

_ACTIVATED = (28, 28, 24, 40)

_DEPTHWISE = {
    ((3, 3), 1, 1, 1): """112x112x32 56x56x144 28x28x192 14x14x384 7x7x960 96x96x8 24x24x32
        12x12x64 6x6x128 3x3x256 25x5x64 14x14x512 32x32x24 28x28x40 28x28x100 28x28x17 20x20x16
        4x4x512 2x2x512 5x5x64 6x6x64 7x7x64 8x8x64 9x9x64 10x10x64 14x14x64 16x16x64 18x18x64
        20x20x64 22x22x64""",
    ((3, 3), 2, 1, 1): "112x112x96 56x56x144 14x14x576 48x48x16 80x80x24",
    ((5, 5), 1, 1, 1): "28x28x72 14x14x480 7x7x672 128x128x16",
    ((5, 5), 2, 1, 1): "56x56x72 14x14x672",
    ((7, 7), 1, 1, 1): "56x56x96 14x14x384 7x7x768",
    ((1, 3), 1, 1, 1): "1x100x64 1x64x512",
    ((1, 9), 1, 1, 1): "1x100x128",
    ((1, 5), 1, 1, 1): "1x200x64",
    ((1, 31), 1, 1, 1): "1x128x64",
    ((3, 3), 1, 8, 1): "28x28x8",
    ((10, 8), 2, 8, 1): "49x40x1",
    ((3, 3), 1, 2, 1): "14x14x32",
    ((3, 3), 1, 1, 2): "33x33x64",
    ((3, 3), 1, 1, 4): "33x33x256",
}
"""Extents [height, width, channels] by kernel, stride, multiplier and dilation."""

_TRANSPOSED = {
    (2, 2, "SAME"): "7x7x64x32 14x14x64x32 28x28x32x16 56x56x16x8 64x64x16x1 128x128x8x1",
    (3, 2, "SAME"): "14x14x64x32 32x32x24x24",
    (4, 2, "SAME"): "28x28x32x16 56x56x16x3 16x16x256x128 8x8x512x256 32x32x21x21",
    (5, 2, "SAME"): "7x7x128x64 14x14x64x1",
    (3, 1, "SAME"): "16x16x32x32",
    (3, 3, "SAME"): "10x10x48x48",
    (4, 4, "SAME"): "8x8x64x64",
    (16, 8, "SAME"): "16x16x21x21",
    (4, 1, "VALID"): "4x4x100x512 1x1x64x64",
    (3, 2, "VALID"): "14x14x32x32",
}
"""Extents [height, width, channels, outputs] by kernel, stride and padding."""

_DENSE = """1x16x10 1x64x10 1x128x128 1x256x256 1x640x128 1x512x1000 1x1280x1000 1x1024x1001
    1x4096x1000 1x784x256 1x400x120 1x120x84 1x84x10 4x256x256 8x128x128 16x64x64 16x256x1024
    32x192x768 64x192x576 64x384x1536 49x768x768 64x100x100 64x48x48 50x17x33 1x4096x4096 2x512x512
    10x512x512 15x256x256 17x256x256 33x256x256 1x16x4096 1x4096x16 1x288x32000"""
"""Extents [rows, channels, outputs]."""

_MATMULS = """1x1x64x64 6x1x48x256 6x1x256x48 8x1x64x512 3x64x64x64 6x64x48x64 12x128x32x128
    3x197x64x197 12x49x64x49 1x16x16x16 4x50x16x50 8x10x24x10 1x100x100x100 1x512x64x512
    2x256x40x256 1x17x17x17 12x7x32x7 3x196x32x49 1x3x64x300"""
"""Extents [heads, m, k, n], with and without the adjoint."""

_VALUES = "12x128x128x32 3x197x197x64 6x64x64x48 12x49x49x32 8x1x512x64"
"""The same, without it."""


def product_cases() -> Iterator[Case]:
    """Yield all of them."""
    for (k, s, d), shapes in _CONVOLUTIONS.items():
        for extents in _read(shapes):
            yield _convolution(extents, k, s, d)
    for activation in ("RELU", "RELU6"):
        yield _convolution(_ACTIVATED, (3, 3), 1, 1, activation)
    for (k, s, m, d), shapes in _DEPTHWISE.items():
        for extents in _read(shapes):
            yield _depthwise(extents, k, s, m, d)
    for (k, s, padding), shapes in _TRANSPOSED.items():
        for extents in _read(shapes):
            yield _transposed(extents, k, s, padding)
    for extents in _read(_DENSE):
        yield _dense(*extents)
    for extents in _read(_MATMULS):
        yield _matmul(extents, adjoint=False)
        yield _matmul(extents, adjoint=True)
    for extents in _read(_VALUES):
        yield _matmul(extents, adjoint=False)


def _read(text: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, word.split("x"))) for word in text.split()]


def _form(k: tuple[int, int], s: int, *others: str) -> str:
    """Kernel and stride, and what else is not as usual."""
    return " ".join([f"k{k[0]}x{k[1]}", *([f"s{s}"] if s > 1 else []), *filter(None, others)])


def _convolution(
    extents: tuple[int, ...], k: tuple[int, int], s: int, d: int, activation: str = "NONE"
) -> Case:
    h, w, c, o = extents
    stride = (1 if h == 1 else s, s)

    def make(net: Net, x: int) -> int:
        options = {"stride": stride, "dilation": (1 if h == 1 else d, d), "activation": activation}
        return net.convolve(x, o, k, **options)

    others = (f"d{d}" if d > 1 else "", activation if activation != "NONE" else "")
    return alone("CONV_2D", (1, h, w, c), make, _form(k, s, *others), more=(o,))


def _depthwise(extents: tuple[int, ...], k: tuple[int, int], s: int, m: int, d: int) -> Case:
    def make(net: Net, x: int) -> int:
        return net.depthwise_of(x, k, m, stride=(s, s), dilation=(d, d))

    others = (f"m{m}" if m > 1 else "", f"d{d}" if d > 1 else "")
    return alone("DEPTHWISE_CONV_2D", (1, *extents), make, _form(k, s, *others))


def _transposed(extents: tuple[int, ...], k: int, s: int, padding: str) -> Case:
    h, w, c, o = extents
    shape = (1, *(n * s if padding == "SAME" else (n - 1) * s + k for n in (h, w)), o)

    def make(net: Net, x: int) -> int:
        weights = net.constant(net.weights(o, k, k, c), 0.01)
        return net.operator(
            "TRANSPOSE_CONV",
            [net.integers(*shape), weights, x],
            [net.like_input(shape)],
            options_type="TransposeConvOptions",
            padding=int(padding == "VALID"),
            strideH=s,
            strideW=s,
        )

    form = _form((k, k), s, padding if padding != "SAME" else "")
    return alone("TRANSPOSE_CONV", (1, h, w, c), make, form, more=(o,))


def _dense(m: int, k: int, o: int) -> Case:
    def make(net: Net, x: int) -> int:
        scale = 0.4 / 30 / k**0.5
        ranges = {"weight_scale": scale, "scale": SCALE, "zero_point": ZERO_POINT}
        return net.dense(x, net.weights(o, k), [7] * o, **ranges)

    made = alone("FULLY_CONNECTED", (m, k), make, more=(o,))
    return Case("FULLY_CONNECTED", "alone", (m, k, o), "", made.build)


def _matmul(extents: tuple[int, ...], *, adjoint: bool) -> Case:
    h, m, k, n = extents

    def make(net: Net, x: int) -> int:
        y = net.image((1, h, n, k) if adjoint else (1, h, k, n))
        z = net.tensor((1, h, m, n), 0.3, ZERO_POINT)
        options = {"options_type": "BatchMatMulOptions", "adjX": False, "adjY": adjoint}
        return net.operator("BATCH_MATMUL", [x, y], [z], **options)

    return alone("BATCH_MATMUL", (1, h, m, k), make, "adjoint" if adjoint else "", more=(n,))
