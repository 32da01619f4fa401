"""What has been found for a layer holds for equal layers and for the next shapes, too."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["Known"]

_T = TypeVar("_T")

_MOST = 1024
"""Results that are kept; one takes some 20 kB."""


class Known:
    """Results of pure functions by what they depend on; forgotten when there are too many."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def get(self, key: tuple[Hashable, ...], make: Callable[[], _T]) -> _T:
        """Return what ``make`` returns; if the first part of the key is None, it is not kept."""
        if key[0] is None:
            return make()
        try:
            return self._found[key]
        except KeyError:
            pass
        found = make()
        if len(self._found) >= _MOST:
            self._found.clear()
        self._found[key] = found
        return found

    def forget(self) -> None:
        """Forget everything."""
        self._found.clear()
