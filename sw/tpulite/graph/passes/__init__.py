"""Passes: from a graph to a simpler one that computes the same."""

from tpulite.graph.passes.simplify import simplify

__all__ = ["simplify"]
