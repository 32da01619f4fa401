"""The storyteller that comes with tpulite: a small decoder of int8, every layer on the machine.

One program computes a word: its embedding, attention to the 96 words before it, and the logits of
the next one. Keys and values are states of the network.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.arch.config import Config
from tpulite.language.model import LanguageModel
from tpulite.language.words import Words
from tpulite.models import STORY, STORY_WORDS
from tpulite.runtime.model import Model


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
