"""The storyteller of the package: every word is LiteRT's, and all layers run on the machine."""

import importlib.util
import re
import runpy
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
import tpulite
from tpulite.language.sampling import Sampling
from tpulite.language.story import Words, load_storyteller
from tpulite.models import MODELS, STORY
from tpulite_testing.oracles.litert_story import litert_logits
from tpulite_testing.stories import RECURRING, held_out, perplexity, story, vocabulary

pytest_plugins = ("tpulite_testing.command_line",)

_EXAMPLE = Path(__file__).resolve().parents[3] / "examples/story.py"
_SEED = 2
_PERPLEXITY = {"float": "1.376", "int8": "1.376"}
"""What scripts/train_story.py printed."""


@pytest.fixture(scope="module")
def teller():
    return load_storyteller()


@pytest.fixture(scope="module")
def told(teller):
    """Return more tokens than are in view, and the logits that led to each behind the first."""
    writer, sampling = teller.writer(), Sampling(0.8, seed=_SEED)
    draws, tokens, logits = sampling.generator(), [0], []
    while len(tokens) < 105:
        logits.append(writer.read(tokens[-1]))
        tokens.append(sampling.choose(logits[-1], draws))
    return tokens, np.array(logits)


def test_every_logit_of_a_story_is_that_of_litert(told):
    tokens, logits = told
    assert 0 not in tokens[1:50]
    assert np.array_equal(logits, litert_logits(STORY.read_bytes(), tokens[:-1]))


def test_keys_and_values_are_those_of_litert(teller, told):
    tokens, _ = told
    rows = np.concatenate([teller.given(token, 0)["word"] for token in tokens[:5]])
    compared = tpulite.compare(STORY, inputs=rows)
    assert compared.same
    assert len(compared.tensors) >= 7  # six states, and the logits


def test_all_layers_run_on_the_machine_in_one_program(teller):
    network = teller.network
    assert network.crossings == 0 and network.host_macs == 0
    assert len(network.programs) == 1
    assert {x.where for x in network.summary()} <= {"MXU", "VPU", "none"}
    assert teller.weight_bytes / 16 < teller.cycles < 30_000
    assert STORY.stat().st_size < 400_000


def test_generate_draws_the_same_story(teller, told):
    tokens, _ = told
    written = teller.generate([0], tokens=20, sampling=Sampling(0.8, seed=_SEED))
    assert written == tokens[1:21]


def test_it_knows_the_next_word_as_well_as_stated():
    known = vocabulary()
    stories = held_out(known)
    data = STORY.read_bytes()
    logits = np.concatenate([litert_logits(data, tokens[:-1]) for tokens in stories])
    found = perplexity(logits, np.concatenate([tokens[1:] for tokens in stories]))
    assert f"{found:.3f}" == _PERPLEXITY["int8"]
    stated = (MODELS / "README.md").read_text()
    assert all(figure in stated for figure in _PERPLEXITY.values())


def test_names_and_things_recur_as_they_began():
    """The likeliest of all names is the one that comes, and so on; most are far back."""
    known, data = vocabulary(), STORY.read_bytes()
    sets = [[known.index(word) for word in words] for words in RECURRING]
    right = []
    for tokens in held_out(known, 32):
        logits = litert_logits(data, tokens[:-1])
        for words in sets:
            for i, token in enumerate(tokens):
                if token in words and token in tokens[:i]:
                    right.append(words[logits[i - 1][words].argmax()] == token)
    assert f"{len(right)} such words" in (MODELS / "README.md").read_text()
    assert all(right)


def test_its_words_are_those_of_the_stories(teller):
    assert list(teller.words.known) == vocabulary()
    drawn = [story(np.random.default_rng(seed)) for seed in range(200)]
    assert {word for words in drawn for word in words} <= {*vocabulary()}
    assert len({tuple(words) for words in drawn}) == 200


def test_text_and_words_are_two_forms_of_one(teller):
    words = teller.words
    for tokens in held_out(words.known, 8):
        text = words.decode(tokens[1:-1])
        assert words.encode(text) == tokens[1:-1]
        assert not re.search(r" [.,?!]|\w\"\w", text)
        assert all(each[0].isupper() for each in re.findall(r"[.] (\w+)", text))
        growing = [words.decode(tokens[:count]) for count in range(1, len(tokens))]
        assert all(longer.startswith(text) for text, longer in pairwise(growing))


def test_unknown_words_are_named():
    words = Words(("<end>", "fox", "."))
    with pytest.raises(ValueError, match=r"fix: no word of the 3 .* \(did you mean fox\?\)"):
        words.encode("Fox fix.")
    for known in (("<end>",), ("<end>", "fox", "fox")):
        with pytest.raises(ValueError, match="each of them once"):
            Words(known)


def _example(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", [str(_EXAMPLE), *words])
    runpy.run_path(str(_EXAMPLE), run_name="__main__")
    return capsys.readouterr().out


def test_the_example_tells_and_compares(monkeypatch, capsys, teller):
    out = _example(
        monkeypatch, capsys, "Once there was", "--tokens", "6", "--check", "--temperature", "0"
    )
    prompt = teller.words.encode("Once there was")
    text = teller.words.decode([*prompt, *teller.generate([0, *prompt], tokens=6)])
    assert out.startswith(f"{text}\n")
    assert f"{teller.cycles:,} cycles a token, by the cycle model" in out
    assert "0 tensors cross" in out
    assert "every bit the same" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("Once a dragon",), "dragon: no word of the 216"),
        (("--device", "rtk"), "rtk: no such device (did you mean rtl?)"),
        (("--temperature", "-1"), "temperature must be at least 0, not -1"),
        (("--mhz", "0"), "--tokens and --mhz must be positive"),
    ],
)
def test_the_example_refuses_in_one_line(monkeypatch, capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        _example(monkeypatch, capsys, *words)
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out) == (2, "")
    assert message in captured.err.splitlines()[-1]


def test_the_example_names_the_package_that_check_needs(monkeypatch, capsys):
    find, litert = importlib.util.find_spec, "ai_edge_litert"
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: find(n) if n != litert else None)
    with pytest.raises(SystemExit):
        _example(monkeypatch, capsys, "--check")
    assert "--check needs: pip install" in " ".join(capsys.readouterr().err.split())


def test_chat_tells_a_story(tpulite, teller):
    code, out, err = tpulite("chat", "story", "Once there was", "--tokens", "6")
    prompt = [0, *teller.words.encode("Once there was")]
    told = teller.words.decode([*prompt, *teller.generate(prompt, tokens=6)])
    assert (code, out) == (0, f"{told}\n")
    assert f"{teller.cycles:,} cycles a token" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("Once a dragon",), "dragon: no word of the 216"),
        (
            ("Once", "--system", "Be kind."),
            "story takes no --system, --plain, --positions or --weights",
        ),
    ],
)
def test_chat_refuses_what_stories_do_not_take(tpulite, words, message):
    code, out, err = tpulite("chat", "story", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_python_of_the_page_tells_what_it_begins(capsys):
    page = Path(__file__).resolve().parents[3] / "docs/language.md"
    (block,) = re.findall(r"```python\n([^`]*load_storyteller.*?)```", page.read_text(), re.DOTALL)
    exec(block, {})
    assert capsys.readouterr().out.startswith("Once there was a shy fox named Lily. ")
