"""Packed rows of an input, for dense mode: one answer for all who ask."""

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.geometry.axis import LARGEST_KERNEL
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.program import PackedRows


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
    config : Config
        The machine.
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
