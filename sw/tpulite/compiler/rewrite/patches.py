"""Inputs that the host packs as patches of pixels: the array has fewer tiles to multiply."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.effects import tile_rows
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.geometry.extents import (
    activation_rows,
    int4_tiles,
    pack_rows,
    packed_tiles,
    sole_reader,
)
from tpulite.compiler.plan.layer_cost import conv_cycles, transfer_cycles
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.program import Patches, TensorSpec

_EXPOSED = 8
"""An eighth of the shorter of transfers and products does not overlap with the other one."""

_CLOSE = 64
"""Layouts within a 64th of the fewest cycles are equal: then the host has the least to do."""


def pack_patches(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with inputs packed as patches where that takes fewer cycles.

    Only inputs that one convolution reads are packed, and never into more bytes than vectors of
    channels take. The convolution gets another kernel, and computes the same.
    """
    for name in layers.inputs:
        layer = sole_reader(layers, name)
        if layer is None:
            continue
        images = layers.activations[name], layers.activations[layer.output]
        ways = _ways(layer, images, config)
        costs = [_cost(layer, images, folding, config) for folding in ways]
        limit = min(costs)[0] * (_CLOSE + 1) // _CLOSE
        if costs[0][0] > limit:
            best = min((rows, i) for i, (cycles, rows) in enumerate(costs) if cycles <= limit)
            layers = _fold(layers, name, layer, ways[best[1]])
    return layers


def alone_cycles(
    layer: Conv, images: tuple[Activation, Activation], config: Config, *, packed: bool = False
) -> int:
    """Return the cycles of a convolution; ``packed``: of an input that the host packs at best."""
    if packed:
        return min(_cost(layer, images, way, config)[0] for way in _ways(layer, images, config))
    kh, kw, depth, outputs = layer.weight.shape
    size, int4 = config.array_size, int4_tiles(layer, config)
    tiles = kh * kw * -(-depth // size) * -(-outputs // size)
    products = conv_cycles(tiles, outputs, images[1].shape[:2], config, int4=int4).mxu
    return max(products, transfer_cycles(tiles * tile_rows(int4, config), config))


@dataclass(frozen=True)
class _Patched:
    """How pixels of an axis become patches, and what is left of the kernel."""

    #: See :class:`Patches`.
    size: int
    step: int
    pad: int
    window: Axis1D  #: Geometry of the convolution of patches.


@dataclass(frozen=True)
class _Folding:
    """A way to fold an image: rows and columns."""

    y: _Patched
    x: _Patched

    def image(self, image: Activation) -> Activation:
        """Return the folded image."""
        depth = self.y.size * self.x.size * image.shape[2]
        return Activation((self.y.window.size, self.x.window.size, depth))

    def conv(self, layer: Conv, weight: np.ndarray) -> Conv:
        """Return a layer with another kernel that computes the same of the folded image."""
        y, x = self.y.window, self.x.window
        padding, stride = (y.before, x.before, y.after, x.after), (y.stride, x.stride)
        return replace(layer, weight=weight, stride=stride, padding=padding)

    def weight(self, layer: Conv) -> np.ndarray:
        """Return the kernel: taps that do not exist multiply by zero."""
        kh, kw, channels, outputs = layer.weight.shape
        y, x = self.y, self.x
        rows, columns = y.window.kernel, x.window.kernel
        missing = ((0, rows * y.size - kh), (0, columns * x.size - kw), (0, 0), (0, 0))
        whole = np.pad(layer.weight, missing, constant_values=layer.weight_zero_point)
        parts = whole.reshape(rows, y.size, columns, x.size, channels, outputs)
        return parts.transpose(0, 2, 1, 3, 4, 5).reshape(rows, columns, -1, outputs)


def _ways(layer: Conv, images: tuple[Activation, Activation], config: Config) -> list[_Folding]:
    """Return ways to fold that take no more bytes than none, which comes first."""
    plain, *others = _foldings(layer, images)
    most = activation_rows(images[0], config)
    return [plain, *(x for x in others if activation_rows(x.image(images[0]), config) <= most)]


def _foldings(layer: Conv, images: tuple[Activation, Activation]) -> Iterator[_Folding]:
    """Yield ways to fold, the one first that leaves everything as it is."""
    axes = [list(_axes(layer, images, axis)) for axis in (0, 1)]
    return (_Folding(y, x) for y, x in product(*axes))


def _axes(layer: Conv, images: tuple[Activation, Activation], axis: int) -> Iterator[_Patched]:
    kernel, stride = layer.weight.shape[axis], layer.stride[axis]
    pad, outputs = layer.padding[axis], images[1].shape[axis]
    behind = layer.padding[axis + 2]
    plain = Axis1D(kernel, stride, before=pad, after=behind, size=images[0].shape[axis])
    yield _Patched(1, 1, 0, plain)
    if layer.dilation[axis] > 1 or kernel == stride == 1:
        return
    # Patches beside each other: all pixels once.
    for step in range(2, stride + 1):
        if stride % step == 0 and step != kernel:
            taps, left = -(-kernel // step), stride // step
            window = Axis1D(taps, left, size=(outputs - 1) * left + taps)
            yield _Patched(step, step, pad, window)
    # A patch for each output.
    yield _Patched(kernel, stride, pad, Axis1D(1, size=outputs))


def _cost(
    layer: Conv,
    images: tuple[Activation, Activation],
    folding: _Folding,
    config: Config,
) -> tuple[int, int]:
    """Return the cycles of the layer with its input from DRAM, and the rows of that."""
    image, outputs, size = folding.image(images[0]), layer.weight.shape[3], config.array_size
    taps, depth = (folding.y.window.kernel, folding.x.window.kernel), image.shape[2]
    # Of the weights only the shape counts here, so there are none.
    weight = np.broadcast_to(np.int8(0), (*taps, depth, outputs))
    packed_rows = pack_rows(folding.conv(layer, weight), (image, images[1]), config)
    rows, tiles = activation_rows(image, config), taps[0] * taps[1] * -(-depth // size)
    if packed_rows is not None:
        rows, tiles = image.shape[0] * packed_rows.vectors, packed_tiles(taps, depth, config)
    tiles *= -(-outputs // size)
    extents = images[1].shape[:2]
    packed = packed_rows is not None
    int4 = int4_tiles(layer, config, packed_rows=packed)
    products = conv_cycles(tiles, outputs, extents, config, packed_rows=packed, int4=int4).mxu
    transfers = transfer_cycles(rows + tiles * tile_rows(int4, config), config)
    return max(products, transfers) + min(products, transfers) // _EXPOSED, rows


def _fold(layers: LayerGraph, name: str, layer: Conv, folding: _Folding) -> LayerGraph:
    """Return the network with an input folded."""
    height, width, channels = layers.activations[name].shape
    y, x, unsigned = folding.y, folding.x, name in layers.unsigned
    patches = Patches(
        count=(y.window.size, x.window.size),
        size=(y.size, x.size),
        step=(y.step, x.step),
        pad=(y.pad, x.pad),
        fill=layer.input_zero_point + (128 if unsigned else 0),
    )
    packed = TensorSpec(
        name,
        Window.INPUT,
        0,
        m=y.window.size * x.window.size,
        channels=channels,
        dtype="uint8" if unsigned else "int8",
        image=(height, width),
        patches=patches,
    )
    folded = folding.conv(layer, folding.weight(layer))
    return replace(
        layers,
        layers=tuple(folded if other is layer else other for other in layers.layers),
        activations={**layers.activations, name: folding.image(layers.activations[name])},
        packed={**layers.packed, name: packed},
    )
