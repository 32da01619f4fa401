"""The cycles of a program, by which the compiler chooses among plans."""

from tpulite.golden.cycles import predict_cycles as estimate_cycles

__all__ = ["estimate_cycles"]
