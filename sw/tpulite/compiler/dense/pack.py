"""Packing: the constants of a network as they lie in DRAM."""

from dataclasses import dataclass

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import RecordForm
from tpulite.arch.numerics import INT32
from tpulite.graph.network import Dense, Network
from tpulite.layout import pack_records, pack_weights

__all__ = ["Constants", "LayerConstants", "pack_constants"]


@dataclass(frozen=True)
class LayerConstants:
    """Where the constants of a layer lie in the CONSTANTS window.

    Weights of all n-blocks follow each other without gaps, and so do the records.

    Parameters
    ----------
    weight_offset, record_offset : int
        First byte.
    record_rows : int
        Rows of the records of one n-block; 0 if the layer needs none.
    record_form : RecordForm
        Their form.
    """

    weight_offset: int
    record_offset: int
    record_rows: int
    record_form: RecordForm


@dataclass(frozen=True)
class Constants:
    """Image of the CONSTANTS window, and what lies where."""

    image: bytes
    layers: tuple[LayerConstants, ...]


def pack_constants(network: Network, config: Config) -> Constants:
    """Lay out weights and channel records of all layers.

    The zero point of the input is folded into the bias. Records take the short form where all
    channels of a layer are scaled alike.

    Parameters
    ----------
    network : Network
        The network.
    config : Config
        The machine.

    Returns
    -------
    Constants
        The image, and the places of each layer.

    Raises
    ------
    ValueError
        If the machine lacks the rounding of a layer.
    """
    parts: list[bytes] = []
    layers: list[LayerConstants] = []
    offset = 0
    for layer in network.layers:
        form, records = _pack_layer_records(layer, config)
        places = []
        for data in (
            pack_weights(layer.weight, config, zero_point=layer.weight_zero_point).tobytes(),
            b"".join(rows.tobytes() for rows in records),
        ):
            places.append(offset)
            parts.append(data.ljust(-(-len(data) // BEAT_BYTES) * BEAT_BYTES, b"\0"))
            offset += len(parts[-1])
        rows = records[0].shape[0] if records else 0
        layers.append(LayerConstants(places[0], places[1], rows, form))
    return Constants(b"".join(parts), tuple(layers))


def _pack_layer_records(layer: Dense, config: Config) -> tuple[RecordForm, list[np.ndarray]]:
    if layer.raw:
        return RecordForm.FULL, []
    if (rounding := layer.rounding.name.lower()) not in config.roundings:
        raise ValueError(
            f"Layer {layer.name!r}: rounding must be one of {list(config.roundings)}, which this "
            f"machine has, not {rounding!r}"
        )
    multipliers = layer.multipliers()
    form = RecordForm.SHORT if len(set(multipliers)) == 1 else RecordForm.FULL
    if len(multipliers) == 1:
        multipliers *= layer.n
    records = [
        {
            "bias": bias,
            "multiplier": multiplier,
            "shift": shift,
            "rounding": layer.rounding,
            "zero_point": layer.output_zero_point,
            "low": layer.low,
            "high": layer.high,
        }
        for bias, (multiplier, shift) in zip(_folded_bias(layer), multipliers, strict=True)
    ]
    padding = -layer.n % config.array_size
    # Channels that do not exist come out as zero where they may have records of their own.
    unused = {"bias": 0}
    if form == RecordForm.FULL:
        unused |= {"multiplier": 0, "shift": 0, "zero_point": 0, "low": 0, "high": 0}
    records += [records[0] | unused] * padding
    size = config.array_size
    blocks = [records[start : start + size] for start in range(0, len(records), size)]
    return form, [pack_records(block, config, form) for block in blocks]


def _folded_bias(layer: Dense) -> list[int]:
    """Return the biases, less what the zero point of the input contributes, wrapped to int32."""
    sums = (layer.weight.astype(np.int64) - layer.weight_zero_point).sum(axis=0)
    folded = layer.bias.astype(np.int64) - layer.input_zero_point * sums
    return ((folded - INT32.start) % len(INT32) + INT32.start).tolist()
