"""What an encoder of the BERT family consists of: sizes and float weights."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.language.extents import check_constant, check_extents
from tpulite.language.weight_check import check_weights


@dataclass(frozen=True)
class BertSizes:
    """Extents and constants of an encoder."""

    #: Layers, elements of a token, elements inside the feed-forward part, and tokens.
    layers: int
    width: int
    hidden: int
    vocabulary: int
    heads: int  #: Heads of attention, of ``width / heads`` elements each.
    positions: int  #: Tokens of the longest text that it was trained for.
    epsilon: float  #: Of the normalizations.

    def __post_init__(self) -> None:
        check_extents(self, "layers", "width", "hidden", "vocabulary", "heads", "positions")
        check_constant(self, "epsilon")
        if self.width % self.heads:
            raise ValueError(f"{self.width} elements are no {self.heads} equal heads")


@dataclass(frozen=True, eq=False)
class Bert:
    """An encoder: ``y = x @ weight.T + bias`` for every matrix.

    Raises
    ------
    ValueError
        If a weight is missing, has another shape, or holds what is no number.
    """

    name: str  #: Name of the model.
    sizes: BertSizes  #: Its extents.
    #: Mapping of str to array of float32. ``words`` [vocabulary, width], ``positions`` [positions,
    #: width], ``types`` [kinds, width], ``norm`` and ``norm.bias`` [width]; of layer i the matrices
    #: ``i.query``, ``i.key``, ``i.value``, ``i.output``, ``i.up``, ``i.down`` and the gains
    #: ``i.attention_norm``, ``i.feed_norm``, each with its ``.bias``.
    weights: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        check_weights(self.name, self.weights, _shapes(self.sizes))
        types = self.weights.get("types", np.empty(0))
        if types.shape[1:] != (self.sizes.width,) or not len(types):
            raise ValueError(f"{self.name}: the weights 'types' are missing, or not of its width")


def _shapes(sizes: BertSizes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes of all weights but ``types``."""
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
    yield from ends.items()
    for i in range(sizes.layers):
        yield from ((f"{i}.{name}", shape) for name, shape in layer.items())
