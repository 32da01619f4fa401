"""Weights and records of layers as the commands of both roads read them."""

from itertools import product

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.interleave import Interleave
from tpulite.arch.isa import Axis, RecordForm
from tpulite.compiler.place.constants import channel_records
from tpulite.graph.layers import Affine, Conv, Depthwise, Filter


def tile_weights(
    weight: np.ndarray, size: int, zero_point: int, *, int4: bool = False
) -> np.ndarray:
    """Return the weight tiles of a convolution.

    Parameters
    ----------
    weight : ndarray of int8, [kh, kw, channels, outputs]
        Its weights as the machine multiplies them.
    size : int
        Size of the array.
    zero_point : int
        What unused weights hold, so that they count as zero.
    int4 : bool
        Whether a row has the weights of two input channels: of an even one in the lower halves of
        its bytes, of the next one in the upper halves.

    Returns
    -------
    ndarray of int8, [n-blocks, channel blocks, kh, kw, rows, size]
        Tiles of ``size`` rows, or half as many of int4; the last axis is the output channel.

    Examples
    --------
    >>> tile_weights(np.ones((3, 3, 5, 2), np.int8), 4, zero_point=7)[0, 1, 0, 0].tolist()
    [[1, 1, 7, 7], [7, 7, 7, 7], [7, 7, 7, 7], [7, 7, 7, 7]]
    """
    kh, kw, channels, outputs = weight.shape
    pad = ((0, 0), (0, 0), (0, -channels % size), (0, -outputs % size))
    padded = np.pad(weight, pad, constant_values=zero_point)
    tiles = padded.reshape(kh, kw, -1, size, padded.shape[3] // size, size)
    tiles = tiles.transpose(4, 2, 0, 1, 3, 5)
    return tiles[..., ::2, :] & 15 | tiles[..., 1::2, :] << 4 if int4 else tiles


def packed_row_weights(layer: Conv, size: int, *, transposed: bool) -> np.ndarray:
    """Return the weights that multiply packed rows.

    Parameters
    ----------
    size : int
        Size of the array.
    transposed : bool
        Whether the packed rows are columns of the image.

    Returns
    -------
    ndarray of int8, [kernel across packed rows, vectors, size, outputs]
        Padded with the weight zero point.
    """
    weight = layer.weight.transpose(1, 0, 2, 3) if transposed else layer.weight
    kh, kw, channels, outputs = weight.shape
    flat = weight.reshape(kh, kw * channels, outputs)
    pad = ((0, 0), (0, -kw * channels % size), (0, 0))
    flat = np.pad(flat, pad, constant_values=layer.weight_zero_point)
    return flat.reshape(kh, -1, size, outputs)


def filter_tiles(
    layer: Depthwise,
    taps: tuple[range, range],
    inner: Axis,
    way: Interleave,
    size: int,
    repeated: tuple[int, int] = (0, 0),
) -> np.ndarray:
    """Return the weight tiles of part of a depthwise kernel.

    Parameters
    ----------
    taps : tuple of range
        Rows and columns of its kernel, perhaps every second one.
    inner : Axis
        The axis along which a command computes its outputs.
    way : Interleave
        Which row of a tile each tap takes.
    size : int
        Size of the array.
    repeated : tuple of int
        First rows and columns of these taps that are zero: another part has them.

    Returns
    -------
    ndarray of int8, [channel blocks, size, size]
        Each column filters a channel.
    """
    weight = layer.weight[tuple(slice(each.start, each.stop, each.step) for each in taps)]
    if any(repeated):
        weight = weight.copy()
        weight[: repeated[0]] = weight[:, : repeated[1]] = layer.weight_zero_point
    if inner == Axis.Y:
        weight = weight.transpose(1, 0, 2)
    outer_taps, inner_taps, channels = weight.shape
    tiles = np.full((size, channels + -channels % size), layer.weight_zero_point, np.int8)
    rows = [way.row(*tap) for tap in product(range(outer_taps), range(inner_taps))]
    tiles[rows, :channels] = weight.reshape(-1, channels)
    return tiles.reshape(size, -1, size).transpose(1, 0, 2)


def layer_records(
    layer: Filter | Affine, config: Config
) -> tuple[RecordForm | None, list[np.ndarray]]:
    """Return the records of all n-blocks and their form; none of sums that are the output.

    Biases have what the zero point of the input contributes, wrapped to int32.
    """
    requantization, gain = layer.requantization, None
    if requantization is None:
        return None, []
    if isinstance(layer, Affine):
        bias, gain = np.broadcast_to(requantization.bias, len(layer.gain)), layer.gain
    else:
        zero_point = -128 if layer.int16 else layer.input_zero_point  # lower bytes lack 128
        bias = requantization.bias - zero_point * layer.weight_sums
        bias = bias.astype(np.int32)
    return channel_records(requantization, bias, config, gain=gain)
