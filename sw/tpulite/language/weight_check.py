"""Sizes and weights of a model: weights are all that its sizes ask for, finite, of those shapes."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

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


_LARGEST = 1 << 31


def check_extents(sizes: Any, *names: str) -> None:
    """Refuse fields that are no positive integers below 2^31; ValueError with name and value."""
    for name in names:
        value = getattr(sizes, name)
        if type(value) is not int or not 0 < value < _LARGEST:
            raise ValueError(f"{name} must be a positive integer, not {_shown(value)}")


def check_constant(sizes: Any, *names: str) -> None:
    """Refuse fields that are no positive numbers of float32; ValueError with name and value."""
    for name in names:
        value = getattr(sizes, name)
        if type(value) not in (int, float) or not (0 < value < 1e38 and math.isfinite(value)):
            raise ValueError(f"{name} must be a positive number, not {_shown(value)}")


def _shown(value: Any) -> str:
    """Return a value, the beginning of a long one."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return "one of thousands of digits"
    return text if len(text) <= 40 else f"{text[:40]}…"
