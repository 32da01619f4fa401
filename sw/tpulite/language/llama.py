"""What a model of the llama family consists of: sizes and float weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["Llama", "Sizes"]


@dataclass(frozen=True)
class Sizes:
    """Extents and constants of a model.

    Parameters
    ----------
    layers, width, hidden, vocabulary : int
        Layers, elements of a token, elements inside the feed-forward part, and tokens.
    heads, key_heads, depth : int
        Heads of queries, heads of keys and values, and elements of a head.
    positions : int
        Tokens of the longest text that the model was trained for.
    base, epsilon : float
        Of the rotary embedding, and of the normalizations.
    """

    layers: int
    width: int
    hidden: int
    vocabulary: int
    heads: int
    key_heads: int
    depth: int
    positions: int
    base: float
    epsilon: float

    def __post_init__(self) -> None:
        if self.heads % self.key_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.key_heads} keys")
        if self.depth % 2:
            raise ValueError(f"a head must have an even number of elements, not {self.depth}")


@dataclass(frozen=True, eq=False)
class Llama:
    """A model: ``y = x @ weight.T`` for every matrix, rotary halves apart as in safetensors files.

    Parameters
    ----------
    name : str
        Name of the model.
    sizes : Sizes
        Its extents.
    weights : mapping of str to array of float32
        ``embedding`` [vocabulary, width], ``norm`` [width], ``head`` [vocabulary, width], and of
        layer i ``i.attention_norm``, ``i.query``, ``i.key``, ``i.value``, ``i.output``,
        ``i.feed_norm``, ``i.gate``, ``i.up``, ``i.down``.

    Raises
    ------
    ValueError
        If a weight is missing, or has another shape.
    """

    name: str
    sizes: Sizes
    weights: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        for name, shape in _shapes(self.sizes).items():
            if name not in self.weights:
                raise ValueError(f"{self.name}: the weights {name!r} are missing")
            found = self.weights[name].shape
            if found != shape:
                raise ValueError(
                    f"{self.name}: the weights {name!r} must be {list(shape)}, not {list(found)}"
                )


def _shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights."""
    width, hidden = sizes.width, sizes.hidden
    queries, keys = sizes.heads * sizes.depth, sizes.key_heads * sizes.depth
    layer = {
        **{"attention_norm": (width,), "query": (queries, width), "key": (keys, width)},
        **{"value": (keys, width), "output": (width, queries), "feed_norm": (width,)},
        **{"gate": (hidden, width), "up": (hidden, width), "down": (width, hidden)},
    }
    ends = {"embedding": (sizes.vocabulary, width), "norm": (width,)}
    ends["head"] = ends["embedding"]
    layers = {f"{i}.{name}": shape for i in range(sizes.layers) for name, shape in layer.items()}
    return ends | layers
