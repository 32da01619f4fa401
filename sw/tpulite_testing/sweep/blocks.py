"""Cases of several operators, as networks repeat them."""

from collections.abc import Iterator

from tpulite_testing.sweep.case import SCALE, ZERO_POINT, Case, Net, Shape, between

__all__ = ["block_cases"]

_DEPTHWISE = {
    (3, 1, 1): "56x56x72 28x28x72 14x14x96 7x7x160 4x4x256",
    (5, 1, 1): "28x28x72 14x14x240 7x7x160",
    (5, 2, 1): "28x28x72",
    (7, 1, 1): "14x14x96 28x28x48",
    (3, 2, 1): "56x56x24 14x14x96",
    (3, 1, 2): "28x28x48",
}
"""Extents by kernel, stride and dilation."""

_RESIDUAL = "56x56x24 28x28x32 28x28x40 14x14x96 7x7x160 14x14x64 28x28x17"
_SQUEEZED = "56x56x24 28x28x72 14x14x240 14x14x96 7x7x480 7x7x960"
_GATED = "28x28x72 14x14x240 7x7x480"
_PYRAMIDS = "20x20x128"

_ENDS = 16
"""Channels of the input of a block."""


def block_cases() -> Iterator[Case]:
    """Yield all of them."""
    for (k, s, d), texts in _DEPTHWISE.items():
        for shape in _shapes(texts):
            form = f"k{k}x{k}{f' s{s}' if s > 1 else ''}{f' d{d}' if d > 1 else ''}"
            yield between("DEPTHWISE", shape, _depthwise(k, s, d), form, channels=_ENDS)
    for shape in _shapes(_RESIDUAL):
        yield between("RESIDUAL", shape, _residual, channels=_ENDS)
    for shape in _shapes(_SQUEEZED):
        yield between("SQUEEZE_EXCITE", shape, _squeeze, channels=_ENDS)
    for shape in _shapes(_GATED):
        yield between("GATE", shape, _gate, channels=_ENDS)
    for shape in _shapes(_PYRAMIDS):
        yield between("SPPF", shape, _pyramid)


def _shapes(texts: str) -> list[Shape]:
    return [(1, *map(int, text.split("x"))) for text in texts.split()]


def _depthwise(k: int, s: int, d: int):
    return lambda net, x: net.depthwise_of(x, (k, k), stride=(s, s), dilation=(d, d))


def _residual(net: Net, x: int) -> int:
    return net.add(x, net.convolve(net.inputs[0], net.shape(x)[3]), 0.1, 1)


def _squeeze(net: Net, x: int) -> int:
    c = net.shape(x)[3]
    mean = net.mean(x, (1, 2), SCALE, ZERO_POINT, keep_dims=True)
    few = net.convolve(mean, max(8, c // 4), activation="RELU")
    gate = net.unary("LOGISTIC", net.convolve(few, c), 1 / 256, -128)
    return net.elementwise("MUL", x, gate, 0.02, ZERO_POINT)


def _gate(net: Net, x: int) -> int:
    gate = net.input((1, 1, 1, net.shape(x)[3]), 1 / 256, -128)
    return net.elementwise("MUL", x, gate, 0.02, ZERO_POINT)


def _pyramid(net: Net, x: int) -> int:
    parts = [x]
    for _ in range(3):
        parts.append(net.pool("MAX_POOL_2D", parts[-1], (5, 5), padding="SAME"))
    return net.concat(parts)
