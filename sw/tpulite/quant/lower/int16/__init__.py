"""LiteRT's int16x8: operators whose activations are int16, as layers of pairs of int8."""

from tpulite.quant.lower.int16.nodes import INT16, lacking_int16, wide_activations

__all__ = ["INT16", "lacking_int16", "wide_activations"]
