"""Rows of the unified buffer that images and constants take, from shapes alone."""

from collections.abc import Iterable, Mapping

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.effects import tile_rows
from tpulite.arch.isa import RAW_ROWS
from tpulite.compiler.geometry.packed_rows import pack_rows, packed_tiles, sole_reader
from tpulite.compiler.geometry.used_blocks import used_blocks
from tpulite.graph.layers import (
    Activation,
    Affine,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
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
        case Conv():
            records = 0
            if layer.requantization is not None:
                short = layer.requantization.channels == 1
                records = config.short_record_rows if short else config.record_rows
            blocks = -(-layer.weight.shape[-1] // size)
            rows = tile_rows(int4_tiles(layer, config, packed_rows=packed_rows), config)
            return weight_tiles(layer, config, packed_rows=packed_rows) * rows + blocks * records
        case Depthwise():
            short = layer.requantization.channels == 1
            records = config.short_record_rows if short else config.record_rows
            return -(-layer.weight.shape[-1] // size) * (_PHASE_TILES * size + records)
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
    if not isinstance(layer, Conv) or sole_reader(layers, layer.inputs[0]) is not layer:
        return None
    images = layers.activations[layer.inputs[0]], layers.activations[layer.output]
    return pack_rows(layer, images, config)
