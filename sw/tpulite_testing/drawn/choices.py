"""Choices of random tests: drawn by hypothesis, which shrinks them, or from a seed."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from hypothesis import strategies as st

__all__ = ["Choices", "Drawn", "Seeded"]

T = TypeVar("T")


class Choices(Protocol):
    """Where choices come from. The simplest choice is the first, the lowest, or no."""

    def integer(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        ...

    def pick(self, options: Sequence[T]) -> T:
        """Return one of them."""
        ...

    def chance(self, percent: int) -> bool:
        """Return yes so often."""
        ...


class Drawn:
    """Choices that hypothesis makes."""

    def __init__(self, draw: "Callable[[st.SearchStrategy], int]") -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        from hypothesis import strategies as st  # which the wheel does without

        return self._draw(st.integers(low, high))

    def pick(self, options: Sequence[T]) -> T:
        """Return one of them."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """Return yes so often."""
        return self.integer(0, 99) >= 100 - percent


class Seeded:
    """Choices that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        return int(self._rng.integers(low, high, endpoint=True))

    def pick(self, options: Sequence[T]) -> T:
        """Return one of them."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """Return yes so often."""
        return self.integer(0, 99) >= 100 - percent
