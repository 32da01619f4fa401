"""What an encoder of the BERT family consists of: sizes and float weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["Bert", "BertSizes"]


@dataclass(frozen=True)
class BertSizes:
    """Extents and constants of an encoder.

    Parameters
    ----------
    layers, width, hidden, vocabulary : int
        Layers, elements of a token, elements inside the feed-forward part, and tokens.
    heads : int
        Heads of attention, of ``width / heads`` elements each.
    positions : int
        Tokens of the longest text that it was trained for.
    epsilon : float
        Of the normalizations.
    """

    layers: int
    width: int
    hidden: int
    vocabulary: int
    heads: int
    positions: int
    epsilon: float

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"{self.width} elements are no {self.heads} equal heads")


@dataclass(frozen=True, eq=False)
class Bert:
    """An encoder: ``y = x @ weight.T + bias`` for every matrix.

    Parameters
    ----------
    name : str
        Name of the model.
    sizes : BertSizes
        Its extents.
    weights : mapping of str to array of float32
        ``words`` [vocabulary, width], ``positions`` [positions, width], ``types`` [kinds, width],
        ``norm`` and ``norm.bias`` [width]; of layer i the matrices ``i.query``, ``i.key``,
        ``i.value``, ``i.output``, ``i.up``, ``i.down`` and the gains ``i.attention_norm``,
        ``i.feed_norm``, each with its ``.bias``.

    Raises
    ------
    ValueError
        If a weight is missing, or has another shape.
    """

    name: str
    sizes: BertSizes
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
        if self.weights.get("types", np.empty(0)).shape[1:] != (self.sizes.width,):
            raise ValueError(f"{self.name}: the weights 'types' are missing, or not of its width")


def _shapes(sizes: BertSizes) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights but ``types``."""
    width, hidden = sizes.width, sizes.hidden
    square, gain = (width, width), (width,)
    layer = {
        **{"query": square, "key": square, "value": square, "output": square},
        **{"up": (hidden, width), "down": (width, hidden)},
        **{"attention_norm": gain, "feed_norm": gain},
    }
    layer |= {f"{name}.bias": shape[:1] for name, shape in layer.items()}
    ends: dict[str, tuple[int, ...]] = {
        "words": (sizes.vocabulary, width),
        "positions": (sizes.positions, width),
        **{"norm": gain, "norm.bias": gain},
    }
    return ends | {
        f"{i}.{name}": shape for i in range(sizes.layers) for name, shape in layer.items()
    }
