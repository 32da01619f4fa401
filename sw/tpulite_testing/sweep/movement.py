"""Cases that move bytes: each between 1x1 convolutions, where networks have them."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from tpulite_testing.sweep.case import Case, Make, Net, Shape, between, case, join

__all__ = ["movement_cases"]

_CONCATENATED = """28:3+5 28:24+24 28:10+100 14:64+64 28:32+48 20:17+17 14:96+12+12 28:12+12+12+12
    14:40+40 56:8+8 56:24+16 8:100+28 28:16+1 28:1+16 13:255+128 14:192+208+48+64 7:24+24+24+24
    28:24+8 28:8+24 28:20+12"""
"""Height and width, and the channels of each input."""

_SPLIT = """28x28x32:3/2 28x28x48:3/2 28x28x24:3/2 14x14x96:3/3 14x14x100:3/2 14x14x96:3/4
    28x28x116:3/2 14x14x232:3/2 28x28x64:1/2 28x28x64:2/2 1x64x192:3/3 20x20x12:3/2 1x100x40:2/4"""
_SLICED = """28x28x32:0,0,0:28,28,16 28x28x32:0,0,8:28,28,16 28x28x48:0,0,24:28,28,24
    28x28x48:0,0,0:28,28,24 28x28x24:2,2,0:24,24,24 28x28x24:0,0,5:28,28,3 64x64x16:1,1,0:63,63,16
    14x14x100:0,0,50:14,14,50 1x197x192:0,0,0:1,1,192"""
_STRIDED = """28x28x32:2,2,1 28x28x24:2,1,1 28x28x24:1,2,1 28x28x32:1,1,2 64x64x12:2,2,1
    14x14x96:2,2,1 1x100x40:1,2,1"""
_PADDED = "28x28x24 56x56x16 14x14x64 7x7x160 20x20x10 112x112x8"
_PADDED_CHANNELS = "28x28x24:0,24 28x28x16:0,16 28x28x16:0,8 28x28x16:8,0 14x14x10:0,1 56x56x16:0,8"
_TRANSPOSED = "14x14x32 28x28x24 16x16x64 12x64x32 7x9x10"
_HEADS = "64x64x16 6x64x48 64x6x48 128x12x32 197x3x64 1x100x40"
_RESHAPED = """14x14x64:1x196x64 14x14x64:196x1x64 1x196x64:14x14x64 1x64x192:64x3x64
    1x64x192:64x4x48 64x4x48:1x64x192 1x64x288:64x6x48 64x6x48:1x64x288 1x128x384:128x12x32
    4x4x64:1x1x1024 7x7x32:1x1x1568 4x4x10:1x1x160 5x5x16:1x1x400 14x14x24:14x7x48 28x28x16:14x14x64
    14x14x100:1x196x100 10x10x24:1x600x4 13x13x255:507x1x85 1x64x160:64x2x80 1x50x32:50x2x16
    1x50x32:50x4x8 1x1x512:4x4x32 1x1x640:5x8x16"""
_SHUFFLED = """28x28x116:2 28x28x24:2 14x14x232:2 7x7x464:2 14x14x64:2 28x28x32:4 28x28x48:3
    56x56x16:2 14x14x240:3"""
_TO_DEPTH = """28x28x16:2 28x28x24:2 56x56x8:2 64x64x3:2 14x14x64:2 112x112x4:2 32x32x16:4
    28x28x10:2"""
_TO_SPACE = """14x14x64:2 14x14x128:2 28x28x12:2 28x28x48:4 28x28x36:3 32x32x16:2 56x56x12:2
    14x14x40:2 64x64x48:4"""
_GATHERED = (
    ("14x14x32", 3, [i ^ 1 for i in range(32)], "neighbors swapped"),
    ("14x14x48", 3, range(0, 48, 2), "every second"),
    ("28x28x24", 1, range(0, 28, 2), "every second"),
    ("28x28x24", 2, range(27, -1, -1), "reversed"),
    ("1x64x64", 2, [5, 9, 2], "three"),
    ("14x14x24", 3, range(23, -1, -1), "reversed"),
)
_REVERSED = "28x28x24:2 28x28x24:1 28x28x24:3 1x100x40:2 14x14x64:3 56x56x16:2"
_PACKED = "1x64x32:1,3 1x64x32:2,2 1x100x24:1,2 1x100x24:2,2 1x64x16:3,2"
_UNPACKED = "3x64x32:1 3x49x24:1 64x3x32:2 49x2x24:2"
_TILED = "1x1x64:14,14,1 14x14x24:2,2,1 14x14x16:1,1,3 14x14x24:1,1,2"


def movement_cases() -> Iterator[Case]:
    """Yield all of them."""
    yield from _parts()
    yield from _pads()
    yield from _orders()
    for text in _RESHAPED.split():
        shape, to = text.split(":")
        yield between("RESHAPE", _shape(shape), _reshape((1, *_ints(to, "x"))), f"to {to}")
    for text in _TO_DEPTH.split():
        shape, k = text.split(":")
        yield between("SPACE_TO_DEPTH", _shape(shape), _blocks("SPACE_TO_DEPTH", int(k)), f"b{k}")
    for text in _TO_SPACE.split():
        shape, k = text.split(":")
        yield between("DEPTH_TO_SPACE", _shape(shape), _blocks("DEPTH_TO_SPACE", int(k)), f"b{k}")
    for shape, axis, indices, form in _GATHERED:
        yield between("GATHER", _shape(shape), _gather(axis, indices), f"axis {axis} {form}")
    for text in _REVERSED.split():
        shape, axis = text.split(":")
        yield between("REVERSE_V2", _shape(shape), _reverse(int(axis)), f"axis {axis}")
    for text in _TILED.split():
        shape, times = text.split(":")
        yield between("TILE", _shape(shape), _tile(1, *_ints(times)), f"by {times}")


def _parts() -> Iterator[Case]:
    for text in _CONCATENATED.split():
        extent, channels = text.split(":")
        yield _concatenation((1, int(extent), int(extent)), _ints(channels, "+"), 3)
    for shape, channels, axis in (
        ((1, 14, 14), (24, 24), 1),
        ((1, 14, 14), (24, 24), 2),
        ((1, 28, 28), (32, 32), 2),
        ((1, 1, 100), (40, 40), 2),
    ):
        yield _concatenation(shape, channels, axis)
    for text in _SPLIT.split():
        shape, how = text.split(":")
        axis, parts = _ints(how, "/")
        yield between("SPLIT", _shape(shape), _split(axis, parts), f"axis {axis} in {parts}")
    for text in _SLICED.split():
        shape, begin, size = text.split(":")
        form = f"at {begin} of {size}"
        yield between("SLICE", _shape(shape), _slice((0, *_ints(begin)), (1, *_ints(size))), form)
    for text in _STRIDED.split():
        shape, steps = text.split(":")
        yield between("STRIDED_SLICE", _shape(shape), _strided((1, *_ints(steps))), f"by {steps}")
    for text in _PACKED.split():
        shape, how = text.split(":")
        axis, count = _ints(how)
        yield between("PACK", _shape(shape), _pack(axis, count), f"{count} at axis {axis}")
    for text in _UNPACKED.split():
        shape, axis = text.split(":")
        yield between("UNPACK", _shape(shape), _unpack(int(axis)), f"axis {axis}")


def _pads() -> Iterator[Case]:
    for text in _PADDED.split():
        shape = _shape(text)
        yield between("PAD", shape, _pad((1, 1), (1, 1), (0, 0)), "around")
        yield between("PAD", shape, _pad((0, 1), (0, 1), (0, 0)), "behind")
        yield between("MIRROR_PAD", shape, _mirror, "around")
    for text in _PADDED_CHANNELS.split():
        shape, pair = text.split(":")
        before, behind = _ints(pair)
        pad = _pad((0, 0), (0, 0), (before, behind))
        yield between("PAD", _shape(shape), pad, f"channels {pair}")
    yield between("PAD", (1, 1, 100, 40), _pad((0, 0), (4, 0), (0, 0)), "causal")
    yield between("PAD", (1, 28, 28, 32), _pad((3, 3), (3, 3), (0, 0)), "3 around")


def _orders() -> Iterator[Case]:
    for order in list(itertools.permutations((1, 2, 3)))[1:]:
        for text in _TRANSPOSED.split():
            yield _transposition(_shape(text), (0, *order))
    for text in _HEADS.split():
        yield _transposition(_shape(text), (0, 2, 1, 3))
    for text in _SHUFFLED.split():
        shape, groups = text.split(":")
        yield between("CHANNEL_SHUFFLE", _shape(shape), _shuffle(int(groups)), f"{groups} groups")


def _shape(text: str) -> Shape:
    return (1, *_ints(text, "x"))


def _ints(text: str, separator: str = ",") -> Shape:
    return tuple(map(int, text.split(separator)))


def _concatenation(shape: Shape, channels: Shape, axis: int) -> Case:
    """Each input comes from a convolution of the same 16 channels."""

    def make(net: Net, x: int) -> int:
        ends = [net.convolve(x, c) for c in channels]
        return net.convolve(net.concat(ends, axis), 16)

    made = case("CONCATENATION", (*shape, 16), make, f"axis {axis}", mode="between")
    return Case("CONCATENATION", "between", (*shape[1:], *channels), f"axis {axis}", made.build)


def _split(axis: int, parts: int) -> Make:
    def make(net: Net, x: int) -> Sequence[int]:
        shape = list(net.shape(x))
        shape[axis] //= parts
        ends = [net.like(x, shape) for _ in range(parts)]
        options = {"options_type": "SplitOptions", "numSplits": parts}
        net.operator("SPLIT", [net.integers(axis), x], ends, **options)
        return ends

    return make


def _slice(begin: Shape, size: Shape) -> Make:
    return lambda net, x: net.operator(
        "SLICE",
        [x, net.integers(*begin), net.integers(*size)],
        [net.like(x, size)],
        options_type="SliceOptions",
    )


def _strided(steps: Shape) -> Make:
    def make(net: Net, x: int) -> int:
        shape = net.shape(x)
        y = net.like(x, [-(-n // s) for n, s in zip(shape, steps, strict=True)])
        bounds = (net.integers(0, 0, 0, 0), net.integers(*shape), net.integers(*steps))
        options = {"options_type": "StridedSliceOptions", "beginMask": 0, "endMask": 0}
        return net.operator("STRIDED_SLICE", [x, *bounds], [y], **options)

    return make


def _pad(*pairs: tuple[int, int]) -> Make:
    return lambda net, x: net.pad(x, ((0, 0), *pairs))


def _mirror(net: Net, x: int) -> int:
    pairs = np.array([(0, 0), (1, 1), (1, 1), (0, 0)], np.int32)
    y = net.like(x, [n + sum(pair) for n, pair in zip(net.shape(x), pairs, strict=True)])
    options = {"options_type": "MirrorPadOptions", "mode": 0}
    return net.operator("MIRROR_PAD", [x, net.constant(pairs)], [y], **options)


def _transpose(net: Net, x: int, order: Shape) -> int:
    y = net.like(x, [net.shape(x)[i] for i in order])
    options = {"options_type": "TransposeOptions"}
    return net.operator("TRANSPOSE", [x, net.integers(*order)], [y], **options)


def _transposition(shape: Shape, order: Shape) -> Case:
    form = f"order {join(order[1:]).replace('x', ',')}"
    return between("TRANSPOSE", shape, lambda net, x: _transpose(net, x, order), form)


def _reshape(shape: Shape) -> Make:
    return lambda net, x: net.reshape(x, shape)


def _shuffle(groups: int) -> Make:
    def make(net: Net, x: int) -> int:
        _, h, w, c = net.shape(x)
        y = net.reshape(x, (1, h, w, groups, c // groups))
        return net.reshape(_transpose(net, y, (0, 1, 2, 4, 3)), (1, h, w, c))

    return make


def _blocks(operator: str, k: int) -> Make:
    def make(net: Net, x: int) -> int:
        _, h, w, c = net.shape(x)
        to_depth = operator == "SPACE_TO_DEPTH"
        shape = (1, h // k, w // k, c * k * k) if to_depth else (1, h * k, w * k, c // k // k)
        options_type = "SpaceToDepthOptions" if to_depth else "DepthToSpaceOptions"
        y = net.like(x, shape)
        return net.operator(operator, [x], [y], options_type=options_type, blockSize=k)

    return make


def _gather(axis: int, indices: Sequence[int]) -> Make:
    def make(net: Net, x: int) -> int:
        shape = list(net.shape(x))
        shape[axis] = len(indices)
        options = {"options_type": "GatherOptions", "axis": axis}
        return net.operator("GATHER", [x, net.integers(*indices)], [net.like(x, shape)], **options)

    return make


def _reverse(axis: int) -> Make:
    return lambda net, x: net.operator(
        "REVERSE_V2",
        [x, net.integers(axis)],
        [net.like(x, net.shape(x))],
        options_type="ReverseV2Options",
    )


def _pack(axis: int, count: int) -> Make:
    def make(net: Net, x: int) -> int:
        _, h, w, c = net.shape(x)
        ends = [x, *(net.convolve(net.inputs[0], c) for _ in range(count - 1))]
        flat = [net.reshape(y, (h, w, c)) for y in ends]
        shape = [h, w, c]
        shape.insert(axis, count)
        options = {"options_type": "PackOptions", "valuesCount": count, "axis": axis}
        return net.operator("PACK", flat, [net.like(x, shape)], **options)

    return make


def _unpack(axis: int) -> Make:
    def make(net: Net, x: int) -> Sequence[int]:
        shape = list(net.shape(x))
        count = shape.pop(axis)
        ends = [net.like(x, shape) for _ in range(count)]
        options = {"options_type": "UnpackOptions", "num": count, "axis": axis}
        net.operator("UNPACK", [x], ends, **options)
        return [net.reshape(y, (1, 1, *shape[1:])) for y in ends]

    return make


def _tile(*times: int) -> Make:
    def make(net: Net, x: int) -> int:
        y = net.like(x, [n * t for n, t in zip(net.shape(x), times, strict=True)])
        return net.operator("TILE", [x, net.integers(*times)], [y])

    return make
