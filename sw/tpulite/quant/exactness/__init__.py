"""The numerics that a network reproduces: each library's scales, roundings and functions."""

from tpulite.quant.exactness.names import Exactness, default_exactness

__all__ = ["Exactness", "default_exactness"]
