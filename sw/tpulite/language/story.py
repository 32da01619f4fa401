"""The storyteller that comes with tpulite: a small decoder of int8, every layer on the machine.

One program computes a word: its embedding, attention to the 96 words before it, and the logits of
the next one. Keys and values are states of the network.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tpulite.arch.config import Config
from tpulite.language.model import LanguageModel
from tpulite.models import STORY, STORY_WORDS
from tpulite.near import did_you_mean
from tpulite.runtime.model import Model

_STOPS = (".", "!", "?")
"""Marks that end a sentence."""

_CLOSE = (",", *_STOPS)
"""Marks without a blank before them."""

_QUOTE = '"'


@dataclass(frozen=True)
class Words:
    """Words and marks by token; the first one stands between texts.

    Words are in lower case but for names; in text, a sentence begins with a capital.

    Raises
    ------
    ValueError
        If there are less than two, or one is there twice.

    Examples
    --------
    >>> words = Words(("<end>", "the", "dog", "Tom", "said", "hello", ".", ",", '"'))
    >>> words.encode('"Hello," said Tom.')
    [8, 5, 7, 8, 4, 3, 6]
    >>> words.decode([8, 5, 7, 8, 4, 3, 6])
    '"Hello," said Tom.'
    """

    known: tuple[str, ...]  #: All of them.

    def __post_init__(self) -> None:
        if len(self.known) < 2 or len({*self.known}) < len(self.known):
            raise ValueError("a vocabulary has at least two words, each of them once")

    def __len__(self) -> int:
        return len(self.known)

    @classmethod
    def read(cls, path: Path) -> "Words":
        """Read a file with one word or mark a line.

        Raises
        ------
        OSError
            If there is no such file.
        ValueError
            If it is no vocabulary.
        """
        return cls(tuple(path.read_text(encoding="utf-8").split("\n")[:-1]))

    @cached_property
    def _tokens(self) -> dict[str, int]:
        return {word: token for token, word in enumerate(self.known)}

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text.

        Raises
        ------
        ValueError
            If a word is not known.
        """
        tokens = []
        for word in re.findall(r"[\w-]+|[^\w\s]", text):
            token = self._tokens.get(word, self._tokens.get(word.lower()))
            if token is None:
                hint = did_you_mean(word, self.known)
                raise ValueError(f"{word}: no word of the {len(self):,} that the model knows{hint}")
            tokens.append(token)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return tokens as text; what more tokens add to it comes behind.

        The first token, which stands between texts, begins a new line.
        """
        text, begins, quoted = "", True, False
        for token in tokens:
            word = self.known[token]
            if token == 0:
                text, begins, quoted = f"{text}\n" if text else "", True, False
                continue
            quote = word == _QUOTE
            tight = word in _CLOSE or (quote and quoted) or (quoted and text.endswith(_QUOTE))
            blank = "" if tight or not text or text.endswith("\n") else " "
            ends = text.endswith(_STOPS[0]) or not quoted  # `"Who?" asked Tom.` goes on
            text += blank + (word[0].upper() + word[1:] if begins else word)
            begins = word in _STOPS or (quote and begins and ends)
            quoted ^= quote
        return text


@dataclass(frozen=True, eq=False, kw_only=True)
class Storyteller(LanguageModel):
    """A language model whose tokens are words."""

    #: Its vocabulary; the first token stands between stories, so it begins and ends one.
    words: Words

    def given(self, token: int, position: int) -> dict[str, np.ndarray]:
        """Return the row of a word, int8 [1, vocabulary]: a 1 among zeros."""
        row = np.zeros((1, self.vocabulary), np.int8)
        row[0, token] = 1
        return {"word": row}

    def logits(self, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the logits, float32 [vocabulary]."""
        quantization = self.network.graph.tensors["logits"].quantization
        assert quantization is not None
        steps = outputs["logits"].reshape(-1).astype(np.int32) - quantization.zero_point[0]
        return steps.astype(np.float32) * quantization.scale[0]


def load_storyteller(
    config: Config | None = None,
    *,
    cache: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Storyteller:
    """Read the storyteller and compile its network.

    Parameters
    ----------
    config : Config, optional
        The machine; 16 x 16 multipliers by default.
    cache : bool
        Whether to look for programs in the user's cache, and to keep them there.
    progress : callable, optional
        Called with a line of text at every step.

    Raises
    ------
    ValueError
        If the machine is too small for it.
    """
    network = Model.load(STORY, config=config).compile(cache=cache, progress=progress)
    words = Words.read(STORY_WORDS)
    return Storyteller(network, len(words), words=words)
