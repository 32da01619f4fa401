"""Says that synthesis should map a component's logic on its own."""

from amaranth.hdl import Signal

__all__ = ["APART", "apart"]

APART = "synthesize_apart"
"""Attribute of a signal whose component is mapped to lookup tables on its own."""


def apart(signal: Signal) -> None:
    """Mark the component of a signal: its longest path is longer than those of others.

    abc saves tables on each path that is shorter than the longest of all that it maps together, so
    that one long path within a component makes all others as long. Its own are short in wires.

    Parameters
    ----------
    signal : Signal
        Any of the component's own, not of those inside it.
    """
    signal.attrs[APART] = 1
