"""Prompts many tokens at once: how many, and the network that reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.golden.timing import total_cycles
from tpulite.runtime.model import Model

_DIGITS = 2
"""Rows of a token."""


def prefill_tokens(config: Config, *, int4: bool = False) -> int:
    """Return how many tokens of a prompt go through a network at once.

    They are the fewest whose rows the array multiplies by a tile of weights in no less than the
    cycles in which another tile comes: from DRAM a beat a cycle, into the array a row a cycle. With
    more of them a token takes as many cycles, and a prompt has more padding.

    Parameters
    ----------
    int4 : bool
        Whether weights have 4 bits.

    Examples
    --------
    >>> prefill_tokens(Config()), prefill_tokens(Config(int4=True), int4=True)
    (8, 4)
    """
    rows = config.array_size // (2 if int4 else 1)
    beats = rows * config.array_size // BEAT_BYTES
    return max(rows, beats) // _DIGITS


@dataclass(frozen=True, eq=False)
class TokenNetwork:
    """A network of tokens, and how long a run of it takes."""

    #: The compiled network of :func:`tpulite.language.step.step_file`; its states are the cache.
    network: Model

    @cached_property
    def cycles(self) -> int:
        """Cycles of a run by the cycle model."""
        return total_cycles(self.network.programs)

    @cached_property
    def kept_cycles(self) -> int:
        """The same of a run that fills the cache and gives no logits."""
        return total_cycles(self.network.kept_programs)


@dataclass(frozen=True, eq=False)
class Prefill(TokenNetwork):
    """A network that takes several tokens of a prompt in a run."""

    tokens: int  #: Tokens of a run, padding included.

    def given(self, tokens: Sequence[int], position: int) -> dict[str, np.ndarray]:
        """Return the inputs of the network for some tokens, the first one at a position."""
        token = np.zeros(self.tokens, np.int64)
        token[: len(tokens)] = tokens
        count = len(tokens)
        return {"token": token, "position": np.array([position]), "count": np.array([count])}

    def parts(self, tokens: Sequence[int], cycles: int) -> Iterator[Sequence[int]]:
        """Yield tokens as they are read: as many as a run takes, or one.

        Those that are left in the end go together if that takes fewer cycles than one by one.

        Parameters
        ----------
        tokens : sequence of int
            The tokens.
        cycles : int
            Cycles of a token alone.
        """
        left = len(tokens) % self.tokens
        whole = len(tokens) - left
        for start in range(0, whole, self.tokens):
            yield tokens[start : start + self.tokens]
        step = left if left * cycles > self.cycles else 1
        for start in range(whole, len(tokens), step):
            yield tokens[start : start + step]
