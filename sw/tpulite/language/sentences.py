"""Texts as the tokens of a sentence encoder: of one length, padding behind them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.language.tokenizer_file import encoded, open_tokenizer

_CALIBRATION = Path(__file__).with_name("calibration.txt")


@dataclass(frozen=True, eq=False)
class Sentences:
    """The tokenizer of an encoder.

    Raises
    ------
    ValueError
        If no text fits between the control tokens.
    """

    tokens: Any  #: A ``tokenizers.Tokenizer`` that neither cuts nor pads.
    length: int  #: Tokens of every text, control tokens and padding included.

    def __post_init__(self) -> None:
        if self.room < 1:
            raise ValueError(f"a text needs more than {self.length - self.room} tokens")

    @property
    def room(self) -> int:
        """Tokens of a text without control tokens."""
        return self.length - self.tokens.num_special_tokens_to_add(False)

    def surplus(self, text: str) -> int:
        """Return how many tokens of a text do not fit."""
        return max(0, len(self.spans(text)) - self.room)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where each token begins and ends in a text, control tokens left out."""
        return encoded(self.tokens, text, special=False).offsets

    def feed(self, text: str) -> dict[str, np.ndarray]:
        """Return a text as inputs, int64 [1, length] each; what does not fit is left out."""
        spans = self.spans(text)
        if len(spans) > self.room:
            text = text[: spans[self.room - 1][1]]
        found = encoded(self.tokens, text, special=True).ids[: self.length]
        ids = np.zeros((1, self.length), np.int64)
        ids[0, : len(found)] = found
        mask = (np.arange(self.length) < len(found)).astype(np.int64)[None]
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}

    def cut(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where parts of a text begin and end that fit, cut at spaces where there are some.

        Parts have as many tokens as fit; a part ends behind a line or a sentence where one ends in
        its second half.
        """
        spans, first = self.spans(text), 0
        while first < len(spans):
            last = min(first + self.room, len(spans))
            if last < len(spans):
                last = _best_end(text, spans, first, last)
            yield spans[first][0], spans[last - 1][1]
            first = last


def _best_end(text: str, spans: list[tuple[int, int]], first: int, last: int) -> int:
    """Return before which token a part should end: behind a line, a sentence, or a word."""
    half = first + (last - first + 1) // 2
    for marks in ("\n", ".!?", ""):
        for index in range(last, half, -1):
            before, gap = text[: spans[index - 1][1]], text[spans[index - 1][1] : spans[index][0]]
            if not marks:
                found = bool(gap)
            else:
                found = "\n" in gap if marks == "\n" else bool(gap) and before[-1] in marks
            if found:
                return index
    return last


def read_sentences(file: Path, length: int) -> Sentences:
    """Read a tokenizer.json.

    Raises
    ------
    ValueError
        If it is missing or none, or the package tokenizers is missing.
    """
    if not file.exists():
        raise ValueError(f"{file} is missing: the tokenizer of the encoder")
    return Sentences(open_tokenizer(file), length)


def calibration_texts() -> tuple[str, ...]:
    """Return texts of many kinds, whose activations choose the ranges of an int8 encoder."""
    return tuple(_CALIBRATION.read_text().splitlines())
