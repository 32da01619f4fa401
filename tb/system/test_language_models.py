"""Tokens and prompts of a language model on the Verilated chip: logits, cache and cycles."""

import numpy as np
import pytest

pytest.importorskip("gguf", reason="gguf is missing (pip install gguf)")
from tpulite.language.model import load_language_model
from tpulite_testing.files.llama_files import LlamaFile


def test_tokens_and_prompts_on_the_chip_are_those_of_the_golden_model(tmp_path):
    path = tmp_path / "tiny.gguf"
    LlamaFile().save_gguf(path, "Q4_1")
    model = load_language_model(path, positions=24)
    chip, golden = model.writer("rtl"), model.writer()
    for token in (72, 101, 108):
        assert np.array_equal(chip.read(token), golden.read(token))
        for name, cache in golden.cache.items():
            assert np.array_equal(chip.cache[name], cache)
    assert len(chip.cycles) == golden.position
    assert np.array_equal(chip.read(111, 32, 119, 111), golden.read(111, 32, 119, 111))
    for name, cache in golden.cache.items():
        assert np.array_equal(chip.cache[name], cache)
    counted, predicted = chip.readings[-1], golden.readings[-1]
    assert (counted.tokens, counted.counted, predicted.counted) == (4, True, False)
    assert abs(predicted.cycles / counted.cycles - 1) <= 0.01
    for cycles in chip.cycles:
        assert abs(model.cycles / cycles - 1) <= 0.01
