"""Quantized networks: what the compiler starts from."""

from tpulite.graph.network import Dense, Network

__all__ = ["Dense", "Network"]
