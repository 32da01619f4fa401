"""Numbers of foreign files that are to be extents or constants of a network."""

import math
from typing import Any

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
