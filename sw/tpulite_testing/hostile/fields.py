"""Changes of single fields in trees of values: JSON, and the object API of flatbuffers.

A byte that is flipped at random mostly breaks the container. What is changed here is well-formed
and wrong, so that it is the meaning of a file that is tested.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["INTEGERS", "changed_value", "with_field_changed"]

INTEGERS = (0, 1, -1, 2, 7, 127, -128, 255, 256, 4095, 65537, 2**20, 2**31 - 1, -(2**31), 2**31)
"""Where code that reads numbers tends to be wrong."""

_REALS = (0.0, -1.0, 1e-45, 1e38, float("inf"), float("-inf"), float("nan"))
_TEXTS = ("", "../../outside", "/etc/hostname", "input", "a" * 5000, "int4", "\0", "é")

Site = tuple[Any, Any]
"""A container, and the key, index or attribute of a field in it."""


def with_field_changed(tree: Any, rng: np.random.Generator) -> Any:
    """Return a copy of a tree in which one field is changed.

    Parameters
    ----------
    tree : object
        Dicts, lists, arrays and objects with attributes; leaves of any type.
    rng : Generator
        Draws the field and the change.
    """
    tree = copy.deepcopy(tree)
    sites = list(_sites(tree))
    if sites:
        container, key = sites[rng.integers(len(sites))]
        _set(container, key, changed_value(_get(container, key), rng))
    return tree


def changed_value(value: Any, rng: np.random.Generator) -> Any:
    """Return another value where one was; mostly of the same type."""
    if rng.random() < 0.05:  # of another type, or nothing
        return [None, 0, "", [], {}, 1.5, [[]]][rng.integers(7)]
    for kind, change in _CHANGES:
        if isinstance(value, kind):
            return change(value, rng)
    return None


def _integer(value: int, rng: np.random.Generator) -> int:
    near = (value + 1, value - 1, 2 * value, -value)
    return int((*near, *INTEGERS)[rng.integers(len(near) + len(INTEGERS))])


def _text(value: str | bytes, rng: np.random.Generator) -> str | bytes:
    chosen = _TEXTS[rng.integers(len(_TEXTS))]
    return chosen if isinstance(value, str) else chosen.encode()


def _items(value: list[Any], rng: np.random.Generator) -> list[Any]:
    """Drop, double, exchange or change items."""
    if not value:
        return [_integer(1, rng)]
    i, j = (int(n) for n in rng.integers(len(value), size=2))
    match rng.integers(5):
        case 0:
            return value[:i] + value[i + 1 :]
        case 1:
            return [*value[:i], value[i], *value[i:]]
        case 2:
            swapped = list(value)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            return swapped
        case 3:
            return value[:i]
        case _:
            return [*value[:i], changed_value(value[i], rng), *value[i + 1 :]]


def _array(value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Change one number, or the length."""
    if not value.size:
        return np.append(value, value.dtype.type(1))
    changed = value.copy()
    if rng.random() < 0.3:
        return np.delete(changed, rng.integers(changed.size))
    if np.issubdtype(value.dtype, np.integer):
        limits = np.iinfo(value.dtype)
        number = _integer(int(changed.flat[0]), rng)
        number = min(max(number, limits.min), limits.max)
    else:
        number = _REALS[rng.integers(len(_REALS))]
    changed.flat[rng.integers(changed.size)] = number
    return changed


def _real(value: float, rng: np.random.Generator) -> float:
    return (*_REALS, -value, 2 * value)[rng.integers(len(_REALS) + 2)]


_CHANGES: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (bool, lambda value, rng: not value),
    (int, _integer),
    (float, _real),
    ((str, bytes), _text),
    (list, _items),
    (np.ndarray, _array),
)


def _sites(tree: Any) -> Iterator[Site]:
    """Yield every field; items of long lists of numbers count as one."""
    if isinstance(tree, dict):
        keys: Any = list(tree)
    elif isinstance(tree, list) and not (tree and isinstance(tree[0], int | float)):
        keys = range(len(tree))
    elif hasattr(tree, "__dict__"):
        keys = list(vars(tree))
    else:
        return
    for key in keys:
        yield tree, key
        yield from _sites(_get(tree, key))


def _get(container: Any, key: Any) -> Any:
    return container[key] if isinstance(container, dict | list) else getattr(container, key)


def _set(container: Any, key: Any, value: Any) -> None:
    if isinstance(container, dict | list):
        container[key] = value
    else:
        setattr(container, key, value)
