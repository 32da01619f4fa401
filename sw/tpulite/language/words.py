"""Text as words and marks: the tokens of a small vocabulary that has each of them once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tpulite.near import did_you_mean

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
