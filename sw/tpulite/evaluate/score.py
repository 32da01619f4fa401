"""How right answers are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite.evaluate.network import RANKS


@dataclass(frozen=True)
class Confusion:
    """How many images of a class are taken for another."""

    label: int
    answer: int
    images: int


@dataclass(frozen=True, eq=False)
class Score:
    """Answers to labelled images."""

    #: Ndarray of int, [classes, classes]. How many images of each class got which answer.
    table: np.ndarray
    among: int  #: How many have their class among the :data:`RANKS` likeliest.

    @classmethod
    def of(cls, images: Sequence[Mapping[str, Any]], labels: np.ndarray, classes: int) -> "Score":
        """Count; images without answers do not count."""
        table, among = np.zeros((classes, classes), np.int64), 0
        for image, label in zip(images, labels.tolist(), strict=True):
            if image:
                table[label, image["ranked"][0]] += 1
                among += label in image["ranked"]
        return cls(table, among)

    @property
    def count(self) -> int:
        """How many images count."""
        return int(self.table.sum())

    @property
    def right(self) -> int:
        """How many are right."""
        return int(self.table.trace())

    @property
    def has_ranks(self) -> bool:
        """Whether there are so many classes that it says something to be among the likeliest."""
        return len(self.table) > RANKS

    def confusions(self) -> tuple[Confusion, ...]:
        """Return what is taken for something else, the most frequent first."""
        wrong = self.table - np.diag(self.table.diagonal())
        places = zip(*(index.tolist() for index in np.nonzero(wrong)), strict=True)
        found = [Confusion(a, b, int(wrong[a, b])) for a, b in places]
        return tuple(sorted(found, key=lambda each: -each.images))
