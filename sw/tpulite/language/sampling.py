"""Choosing the next token."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; by default always the most likely one.

    Raises
    ------
    ValueError
        If a value is impossible.
    """

    #: 0 for the most likely token; 1 draws with the model's own probabilities.
    temperature: float = 0.0
    top_k: int | None = None  #: Draw among so many of the most likely tokens.
    #: Draw among the most likely tokens that together have this probability.
    top_p: float | None = None
    seed: int = 0  #: Of the draws.

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and np.isfinite(self.temperature)):
            raise ValueError(f"temperature must be at least 0, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    def generator(self) -> np.random.Generator:
        """Return what draws for one text."""
        return np.random.default_rng(self.seed)

    def choose(self, logits: np.ndarray, draws: np.random.Generator) -> int:
        """Return a token.

        Parameters
        ----------
        logits : array of float32, [vocabulary]
            Of the next token.
        draws : Generator
            Of :meth:`generator`.
        """
        if not self.temperature:
            return int(np.argmax(logits))
        scaled = logits.astype(np.float64) / self.temperature
        order = np.argsort(-scaled, kind="stable")[: self.top_k]
        shares = np.exp(scaled[order] - scaled[order[0]])
        shares /= shares.sum()
        if self.top_p is not None:
            enough = int(np.searchsorted(np.cumsum(shares), self.top_p)) + 1
            order, shares = order[:enough], shares[:enough] / shares[:enough].sum()
        return int(order[draws.choice(len(order), p=shares)])
