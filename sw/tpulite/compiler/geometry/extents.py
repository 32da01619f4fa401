"""Rows of the unified buffer that images and constants take, from shapes alone."""

from collections.abc import Iterable, Mapping
from weakref import finalize

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.effects import tile_rows
from tpulite.arch.isa import RAW_ROWS
from tpulite.compiler.geometry.axis import LARGEST_KERNEL
from tpulite.graph.layers import (
    Activation,
    Affine,
    Conv,
    Elementwise,
    Filter,
    Layer,
    LayerGraph,
    Lut,
    Made,
    Pool,
)
from tpulite.program import PackedRows

_PHASE_TILES = 2
"""Weight tiles of a depthwise layer, pass and block: the last group of rows has another one."""


def vectors_of_row(image: Activation, config: Config) -> int:
    """Return the rows of the buffer that one row of an image takes, all channel blocks."""
    _, width, channels = image.shape
    vector = RAW_ROWS if image.dtype == "int32" else 1
    return width * -(-channels // config.array_size) * vector


def activation_rows(image: Activation, config: Config) -> int:
    """Return the rows of the buffer that a whole image takes."""
    return image.shape[0] * vectors_of_row(image, config)


def k_tiles(layer: Conv, config: Config, *, packed_rows: bool = False) -> int:
    """Return the weight tiles of an n-block; ``packed_rows``: of dense mode."""
    kh, kw, channels, _ = layer.weight.shape
    if packed_rows:
        return packed_tiles((kh, kw), channels, config)
    return kh * kw * -(-channels // config.array_size)


def weight_tiles(layer: Conv, config: Config, *, packed_rows: bool = False) -> int:
    """Return the weight tiles of all n-blocks; tiles of nothing but zeros are not there."""
    if packed_rows:
        return -(-layer.weight.shape[3] // config.array_size) * k_tiles(
            layer, config, packed_rows=True
        )
    taps = layer.weight.shape[0] * layer.weight.shape[1]
    return taps * int(used_blocks(layer, config.array_size).sum())


def int4_tiles(layer: Conv, config: Config, *, packed_rows: bool = False) -> bool:
    """Return whether weight tiles are int4: not those of dense mode, nor of parts of a beat."""
    whole = config.array_size * config.row_bytes % (2 * BEAT_BYTES) == 0
    return config.int4 and whole and not packed_rows and layer.narrow


def constant_rows(layer: Layer, config: Config, *, packed_rows: bool = False) -> int:
    """Return the rows of weights, records and parameters of a layer."""
    size = config.array_size
    match layer:
        case Filter():
            records, how = 0, layer.requantization
            if how is not None:
                records = config.short_record_rows if how.channels == 1 else config.record_rows
            blocks = -(-layer.weight.shape[-1] // size)
            if not isinstance(layer, Conv):
                return blocks * (_PHASE_TILES * size + records)
            rows = tile_rows(int4_tiles(layer, config, packed_rows=packed_rows), config)
            return weight_tiles(layer, config, packed_rows=packed_rows) * rows + blocks * records
        case Affine():
            return -(-len(layer.gain) // size) * config.record_rows
        case Lut():
            return -(-len(layer.table) // config.row_bytes)
        case Elementwise() if layer.op != "max":
            return 2 * -(-BEAT_BYTES // config.row_bytes)
        case Pool() if layer.op != "max":
            return -(-BEAT_BYTES // config.row_bytes)
    return 0


def fit_uncut(layers: Iterable[Layer], images: Mapping[str, Activation], config: Config) -> bool:
    """Return whether layers of images of one row, which nothing cuts, fit half the buffer.

    The other half is left to their constants, and to images that wait for other layers.
    """
    for layer in layers:
        some = [images[name] for name in (*layer.inputs, layer.output)]
        rows = sum(activation_rows(image, config) for image in some)
        if any(image.shape[0] == 1 for image in some) and rows > config.ub_rows // 2:
            return False
    return True


def rows_at_once(constants: int, channels: int, config: Config) -> int:
    """Return the rows of constants of which two blocks of outputs have theirs at a time.

    Those of deep kernels come in parts.

    Examples
    --------
    >>> rows_at_once(400, 64, Config(array_size=16)), rows_at_once(100, 16, Config(array_size=16))
    (200, 100)
    """
    blocks = -(-channels // config.array_size)
    most = 2 * (config.ub_rows // 8 + config.record_rows)  # a command has an eighth of the buffer
    return min(-(-constants * min(2, blocks) // blocks), most)


def input_rows(layers: LayerGraph, layer: Layer, config: Config) -> PackedRows | None:
    """Return how rows of an input are packed that only this layer reads, if they are.

    Packed columns are left out: nothing can be cut then.
    """
    reader = sole_reader(layers, layer.inputs[0])
    if reader is None or reader is not layer:
        return None
    images = layers.activations[layer.inputs[0]], layers.activations[layer.output]
    return pack_rows(reader, images, config)


def sole_reader(layers: LayerGraph, name: str) -> Conv | None:
    """Return the convolution that reads an input, if nobody else does: the host may pack it."""
    layer = layers.sole_reader(name) if name in layers.inputs else None
    return layer if isinstance(layer, Conv) else None


def packed_tiles(kernel: tuple[int, int], channels: int, config: Config) -> int:
    """Return the weight tiles of an n-block if rows are packed; kernel is across and along them."""
    return kernel[0] * -(-kernel[1] * channels // config.array_size)


def pack_rows(
    layer: Conv,
    images: tuple[Activation, Activation],
    config: Config,
    *,
    unsigned: bool = False,
    columns: bool = False,
) -> PackedRows | None:
    """Return how an input is laid out for dense mode, if that saves weight tiles.

    Parameters
    ----------
    layer : Conv
        The only layer that reads it.
    images : tuple of Activation
        The input, and what the layer computes.
    unsigned : bool
        Whether the host has the input as uint8.
    columns : bool
        Whether packed rows may run along columns of the image. They are complete before rows, so
        nothing can be cut or stored meanwhile.
    """
    if max(layer.dilation) > 1 or layer.int16:
        return None
    (source, target), size = (image.shape for image in images), config.array_size
    best, tiles = None, layer.weight.shape[0] * layer.weight.shape[1] * -(-source[2] // size)
    for transposed in (False, True) if columns else (False,):
        along, across = (0, 1) if transposed else (1, 0)
        step, count = layer.stride[along] * source[2], target[along]
        kernel = layer.weight.shape[across], layer.weight.shape[along]
        length = kernel[1] * source[2]
        fits = step <= size and max(kernel[0], -(-length // size)) <= LARGEST_KERNEL
        needed = packed_tiles(kernel, source[2], config)
        if not fits or count > config.acc_rows or needed >= tiles:
            continue
        tiles = needed
        vectors = -(-((count - 1) * step + length) // size)
        grain = max(1, BEAT_BYTES // size)
        fill = layer.input_zero_point + (128 if unsigned else 0)
        best = PackedRows(-(-vectors // grain) * grain, layer.padding[along], fill, transposed)
    return best


_KNOWN: dict[tuple[int, int, int], np.ndarray] = {}
"""By array of weights (layers are compared by their names), zero point and size."""


def used_blocks(layer: Conv, size: int) -> np.ndarray:
    """Return which channel blocks of the input the n-blocks of a convolution need.

    A weight that is the zero point adds nothing, and so does a tile of them.

    Parameters
    ----------
    size : int
        Size of the array.

    Returns
    -------
    ndarray of bool, [n-blocks, channel blocks]
        At least one for each n-block, so that there is a command that drains.
    """
    key = (id(layer.weight), layer.weight_zero_point, size)
    if key not in _KNOWN:
        _KNOWN[key] = _used_blocks(layer, size)
        finalize(layer.weight, _KNOWN.pop, key)
    return _KNOWN[key]


def used_runs(layer: Conv, size: int, n: int) -> list[range]:
    """Return the channel blocks of an n-block that are needed, as runs of one digit each."""
    needed = used_blocks(layer, size)[n]
    if needed.all() and layer.digits is None:
        return [range(len(needed))]
    used = np.flatnonzero(needed)
    ends = np.diff(used) > 1
    if layer.digits is not None:
        firsts = layer.digits[used * size]
        if any(
            (layer.digits[k * size : (k + 1) * size] != layer.digits[k * size]).any() for k in used
        ):
            raise ValueError(f"{layer.title} has blocks of {size} channels of different digits")
        ends |= np.diff(firsts) != 0
    pieces = np.split(used, np.flatnonzero(ends) + 1)
    return [range(int(piece[0]), int(piece[-1]) + 1) for piece in pieces]


def _used_blocks(layer: Conv, size: int) -> np.ndarray:
    channels, outputs = layer.weight.shape[2:]
    used = (layer.weight != layer.weight_zero_point).any(axis=(0, 1))
    used = np.logical_or.reduceat(used, range(0, outputs, size), axis=1)
    used = np.logical_or.reduceat(used, range(0, channels, size), axis=0).T
    used[~used.any(axis=1), 0] = True
    return used


_PARTS = 2
"""Parts of what is between the layers that are in the buffer: one is computed, and one is read."""

_SHARE = 8
"""A part takes an eighth of the buffer, or is one channel block."""


def runs_by_blocks(layers: LayerGraph, members: range) -> bool:
    """Return whether layers can run channel block by channel block.

    The second one must need a block of the first one's output, and nobody else any of it.
    """
    if len(members) != 2:
        return False
    first, second = (layers.layers[i] for i in members)
    if (first.made, second.made) != (Made.BY_ROWS, Made.BY_BLOCKS):
        return False
    sums = layers.activations[first.output].dtype == "int32"
    return layers.sole_reader(first.output) is second and not sums


def block_parts(layers: LayerGraph, members: range, config: Config) -> int:
    """Return into how many parts of some channel blocks such layers are cut."""
    middle = layers.activations[layers.layers[members[0]].output]
    blocks = -(-middle.shape[2] // config.array_size)
    at_once = max(1, blocks * config.ub_rows // (_SHARE * activation_rows(middle, config)))
    return -(-blocks // at_once)


def plane_rows(layers: LayerGraph, members: range, config: Config, *, resident: bool) -> int:
    """Return the rows that such layers take beside the input of the first one.

    Parameters
    ----------
    members : range
        The two layers.
    resident : bool
        Whether the output of the second one stays in the buffer, so that its rows do not count.
    """
    middle, output = (layers.activations[layers.layers[i].output] for i in members)
    planes = _PARTS * activation_rows(middle, config)
    if not resident:
        planes += activation_rows(output, config)
    constants = _PARTS * sum(constant_rows(layers.layers[i], config) for i in members)
    return -(-(planes + constants) // block_parts(layers, members, config))
