"""Plain networks by seed: families in turn."""

from collections.abc import Callable

from tpulite_testing.plain import images, maps, sequences
from tpulite_testing.plain.network import Network, Sketch

__all__ = ["FAMILIES", "draw_network"]

FAMILIES: dict[str, Callable[[Sketch], str]] = {
    name: getattr(module, name) for module in (images, maps, sequences) for name in module.__all__
}
"""Architectures by name: each draws one and returns its output."""


def draw_network(seed: int) -> Network:
    """Return a network of the family whose turn it is."""
    name = list(FAMILIES)[seed % len(FAMILIES)]
    sketch = Sketch(seed)
    return sketch.network(name, FAMILIES[name](sketch))
