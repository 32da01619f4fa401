"""Layouts of tensors in memory: each has an exact inverse."""

from tpulite.layout.activations import pack_activations, unpack_activations
from tpulite.layout.records import pack_record_columns, pack_records
from tpulite.layout.weights import pack_weights, unpack_weights

__all__ = [
    "pack_activations",
    "pack_record_columns",
    "pack_records",
    "pack_weights",
    "unpack_activations",
    "unpack_weights",
]
