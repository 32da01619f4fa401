"""Weights of a model: all that its sizes ask for, finite, and none of another shape."""

from collections.abc import Iterable, Mapping

import numpy as np


def check_weights(
    model: str, weights: Mapping[str, np.ndarray], shapes: Iterable[tuple[str, tuple[int, ...]]]
) -> None:
    """Check weights one after the other, so that a count that lies costs nothing.

    Raises
    ------
    ValueError
        If a weight is missing, has another shape, or holds what is no number.
    """
    for name, shape in shapes:
        if name not in weights:
            raise ValueError(f"{model}: the weights {name!r} are missing")
        found = weights[name].shape
        if found != shape:
            raise ValueError(
                f"{model}: the weights {name!r} must be {list(shape)}, not {list(found)}"
            )
    for name, weight in weights.items():
        if not np.isfinite(weight).all():
            raise ValueError(f"{model}: the weights {name!r} have elements that are not finite")
