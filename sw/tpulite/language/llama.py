"""What a model of the llama family consists of: sizes and float weights."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.language.weight_check import check_constant, check_extents, check_weights


@dataclass(frozen=True)
class Sizes:
    """Extents and constants of a model."""

    #: Layers, elements of a token, elements inside the feed-forward part, and tokens.
    layers: int
    width: int
    hidden: int
    vocabulary: int
    #: Heads of queries, heads of keys and values, and elements of a head.
    heads: int
    key_heads: int
    depth: int
    positions: int  #: Tokens of the longest text that the model was trained for.
    #: Of the rotary embedding, and of the normalizations.
    base: float
    epsilon: float

    def __post_init__(self) -> None:
        check_extents(self, "layers", "width", "hidden", "vocabulary")
        check_extents(self, "heads", "key_heads", "depth", "positions")
        check_constant(self, "base", "epsilon")
        if self.heads % self.key_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.key_heads} keys")
        if self.depth % 2:
            raise ValueError(f"a head must have an even number of elements, not {self.depth}")


@dataclass(frozen=True, eq=False)
class Llama:
    """A model: ``y = x @ weight.T`` for every matrix, rotary halves apart as in safetensors files.

    Raises
    ------
    ValueError
        If a weight is missing, has another shape, or holds what is no number.
    """

    name: str  #: Name of the model.
    sizes: Sizes  #: Its extents.
    #: Mapping of str to array of float32. ``embedding`` [vocabulary, width], ``norm`` [width],
    #: ``head`` [vocabulary, width], and of layer i ``i.attention_norm``, ``i.query``, ``i.key``,
    #: ``i.value``, ``i.output``, ``i.feed_norm``, ``i.gate``, ``i.up``, ``i.down``.
    weights: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        check_weights(self.name, self.weights, _shapes(self.sizes))


def _shapes(sizes: Sizes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes of all weights."""
    width, hidden = sizes.width, sizes.hidden
    queries, keys = sizes.heads * sizes.depth, sizes.key_heads * sizes.depth
    layer = {
        **{"attention_norm": (width,), "query": (queries, width), "key": (keys, width)},
        **{"value": (keys, width), "output": (width, queries), "feed_norm": (width,)},
        **{"gate": (hidden, width), "up": (hidden, width), "down": (width, hidden)},
    }
    ends = {"embedding": (sizes.vocabulary, width), "norm": (width,)}
    ends["head"] = ends["embedding"]
    yield from ends.items()
    for i in range(sizes.layers):
        yield from ((f"{i}.{name}", shape) for name, shape in layer.items())
