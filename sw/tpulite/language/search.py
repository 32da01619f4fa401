"""Passages that answer a question: those whose vectors are closest to its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tpulite.language.encoder import Embedder
from tpulite.language.passages import Passage
from tpulite.language.vectors import KeptVectors


@dataclass(frozen=True)
class Found:
    """A passage, and how close it is to a question."""

    passage: Passage  #: The passage.
    score: float  #: Cosine of the angle between both vectors.


@dataclass(frozen=True, eq=False)
class Index:
    """Passages with their vectors."""

    passages: Sequence[Passage]  #: The passages.
    vectors: np.ndarray  #: Ndarray of float32, [passages, width]. Their vectors, of length 1.
    embedded: int  #: How many vectors were computed, not kept from before.

    @classmethod
    def build(
        cls,
        passages: Sequence[Passage],
        embedder: Embedder,
        kept: KeptVectors | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> "Index":
        """Embed passages, equal texts once.

        Parameters
        ----------
        passages : sequence of Passage
            The passages, one at least.
        embedder : Embedder
            What computes vectors that are not known.
        kept : KeptVectors, optional
            Vectors from before; new ones are added as they come.
        progress : callable, optional
            Called with the number of vectors that were computed, and of all that have to be.
        """
        texts = dict.fromkeys(each.text for each in passages)
        found = {text: vector for text in texts if (vector := _known(kept, text)) is not None}
        missing = [text for text in texts if text not in found]
        for done, text in enumerate(missing, 1):
            found[text] = embedder.embed(text)
            if kept is not None:
                kept.put(text, found[text])
            if progress is not None:
                progress(done, len(missing))
        return cls(passages, np.stack([found[each.text] for each in passages]), len(missing))

    def closest(self, vector: np.ndarray, count: int) -> list[Found]:
        """Return the passages that are closest to a vector of length 1, the closest first."""
        # Row by row: a product's order of additions depends on how many rows there are.
        scores = (self.vectors * vector.astype(np.float64)).sum(axis=1)
        order = np.argsort(-scores, kind="stable")[:count]
        return [Found(self.passages[index], float(scores[index])) for index in order]


def _known(kept: KeptVectors | None, text: str) -> np.ndarray | None:
    return None if kept is None else kept.get(text)
