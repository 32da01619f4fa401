"""Weights and records of a convolution, as the commands of its passes need them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import Drain, RecordForm
from tpulite.compiler.geometry.passes import Pass
from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.lower.conv.offset import Offset
from tpulite.compiler.place.constants import Constant, channel_records
from tpulite.compiler.place.requantizations import folded_bias
from tpulite.graph.layers import Conv
from tpulite.layout import pack_weights

__all__ = [
    "Drained",
    "pack_kernel",
    "pack_offsets",
    "pack_passes",
    "pack_records",
    "packed_row_weights",
]


@dataclass(frozen=True)
class Drained:
    """Records of a layer: a constant for each n-block, or none for raw sums."""

    form: RecordForm
    records: tuple[Constant, ...]

    def fields(self) -> dict[str, int]:
        """Return the fields of a command that drains."""
        if not self.records:
            return {"drain": Drain.RAW}
        return {"drain": Drain.REQUANTIZE, "record_form": self.form}


def packed_row_weights(layer: Conv, size: int, *, transposed: bool) -> np.ndarray:
    """Return the weights that multiply packed rows.

    Parameters
    ----------
    layer : Conv
        The layer.
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


def pack_passes(
    weight: np.ndarray, n: int, passes: Sequence[Pass], zero_point: int, context: LayerContext
) -> tuple[Constant, ...]:
    """Return the weights [kh, kw, channels, outputs] of n-block ``n`` by pass."""
    config = context.config
    size, bank = config.array_size, config.ub_banks // 2
    constants = []
    for part in passes:
        piece = weight[
            part.rows.start : part.rows.stop,
            part.columns.start : part.columns.stop,
            part.blocks.start * size : part.blocks.stop * size,
            n * size : (n + 1) * size,
        ]
        kh, kw, depth, outputs = piece.shape
        pad = ((0, 0), (0, 0), (0, -depth % size), (0, 0))
        piece = np.pad(piece, pad, constant_values=zero_point)
        tiles = piece.reshape(kh, kw, -1, size, outputs).transpose(2, 0, 1, 3, 4)
        packed = pack_weights(tiles.reshape(-1, outputs), config, zero_point=zero_point)
        constants.append(context.constant("weights", packed, bank=bank))
    return tuple(constants)


def pack_kernel(layer: Conv, config: Config) -> bytes:
    """Return all weights by n-block and channel block, the whole kernel of each."""
    weight, zero_point, size = layer.weight, layer.weight_zero_point, config.array_size
    kh, kw, channels, outputs = weight.shape
    pad = ((0, 0), (0, 0), (0, -channels % size), (0, 0))
    weight = np.pad(weight, pad, constant_values=zero_point)
    tiles = weight.reshape(kh, kw, -1, size, outputs).transpose(2, 0, 1, 3, 4)
    return pack_weights(tiles.reshape(-1, outputs), config, zero_point=zero_point).tobytes()


def pack_records(layer: Conv, config: Config) -> tuple[RecordForm | None, list[np.ndarray]]:
    """Return the records of all n-blocks and their form; none of sums that are the output."""
    requantization = layer.requantization
    if requantization is None:
        return None, []
    bias = np.broadcast_to(requantization.bias, layer.weight.shape[3])
    bias = folded_bias(bias, _sums(layer), layer.input_zero_point)
    return channel_records(requantization, bias, config)


def pack_offsets(layer: Conv, context: LayerContext) -> list[Offset]:
    """Return what is added to raw sums instead of biases."""
    if layer.requantization is not None or not layer.input_zero_point:
        return []
    offsets, size = -layer.input_zero_point * _sums(layer), context.config.array_size
    return [Offset(offsets[n : n + size], context) for n in range(0, len(offsets), size)]


def _sums(layer: Conv) -> np.ndarray:
    """Return the sum of the weights of each output."""
    depth = layer.weight.size // layer.weight.shape[3]
    return layer.weight.sum(axis=(0, 1, 2), dtype=np.int64) - depth * layer.weight_zero_point
