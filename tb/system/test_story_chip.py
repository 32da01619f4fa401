"""Stories on the Verilated chip: logits of LiteRT, keys and values of the golden model, cycles."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.language.story import load_storyteller
from tpulite.models import STORY
from tpulite_testing.oracles.litert_story import litert_logits
from tpulite_testing.regress import breadth
from tpulite_testing.stories import held_out


@pytest.mark.parametrize("count", [2, *breadth("the program of two words is that of all", 100)])
def test_every_word_on_the_chip_is_that_of_litert(count):
    teller = load_storyteller()
    text = held_out(teller.words.known, 2)
    tokens = [*text[0], *text[1][1:]][:count]
    chip, golden = teller.writer("rtl"), teller.writer()
    for token, logits in zip(tokens, litert_logits(STORY.read_bytes(), tokens), strict=True):
        assert np.array_equal(chip.read(token), logits)
        golden.read(token)
        for name, cache in golden.cache.items():
            assert np.array_equal(chip.cache[name], cache)
    assert len(chip.cycles) == count
    assert all(abs(teller.cycles / cycles - 1) <= 0.01 for cycles in chip.cycles)
