"""Weights and records of a convolution, packed once: units that are loaded one at a time."""

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import RecordForm
from tpulite.compiler.place.constants import channel_records
from tpulite.compiler.place.requantizations import folded_bias
from tpulite.compiler.plan.chunks import MOST_BLOCKS
from tpulite.compiler.plan.closed_forms import ceil_div
from tpulite.compiler.plan.conv_facts import ConvFacts
from tpulite.graph.layers import Conv

__all__ = ["pack_conv", "pack_records"]


def pack_conv(layer: Conv, weight: np.ndarray, records: list[bytes], facts: ConvFacts) -> bytes:
    """Return weights and records in the order of units of one channel block.

    Larger units are some of them, one after the other.

    Parameters
    ----------
    layer : Conv
        The convolution.
    weight : ndarray of int8, [kh, kw, C, outputs]
        Its weights as the machine multiplies them, which for packed rows are not those of the
        layer.
    records : list of bytes
        Records of each n-block.
    facts : ConvFacts
        Its units.
    """
    size = facts.config.array_size
    kh, kw, channels, features = weight.shape
    extra = ((0, 0), (0, 0), (0, -channels % size), (0, -features % size))
    padded = np.pad(weight, extra, constant_values=layer.weight_zero_point)
    tiles = padded.reshape(kh, kw, facts.blocks, size, facts.n_blocks, size)
    tiles = tiles.transpose(4, 2, 0, 1, 3, 5)
    parts = [
        tiles[:, :, part.rows.start : part.rows.stop, part.columns.start : part.columns.stop]
        for part in facts.block_passes[0]
        if part.blocks.start == 0
    ]
    flat = [part.reshape(facts.n_blocks, facts.blocks, -1) for part in parts]
    matrix = np.concatenate(flat, axis=2)
    return b"".join(values.tobytes() + records[n] for n, values in enumerate(matrix))


def pack_records(layer: Conv, config: Config) -> tuple[RecordForm | None, list[bytes]]:
    """Return the form and the bytes of the records of each n-block; raw sums have none.

    Raises
    ------
    ValueError
        If there are too many channels, or raw sums of an input whose zero point is not 0.
    """
    channels, outputs = layer.weight.shape[2:]
    if channels > MOST_BLOCKS * config.array_size:
        raise ValueError(
            f"{layer.title} must have at most {MOST_BLOCKS * config.array_size} channels, "
            f"not {channels}"
        )
    if layer.requantization is None:
        if layer.input_zero_point:
            raise ValueError(
                f"{layer.title}: raw sums of any shape need input_zero_point 0, "
                f"not {layer.input_zero_point}"
            )
        return None, [b""] * ceil_div(outputs, config.array_size)
    sums = (layer.weight.astype(np.int64) - layer.weight_zero_point).sum(axis=(0, 1, 2))
    bias = np.broadcast_to(layer.requantization.bias, outputs)
    bias = folded_bias(bias, sums, layer.input_zero_point)
    form, blocks = channel_records(layer.requantization, bias, config)
    return form, [block.tobytes() for block in blocks]
