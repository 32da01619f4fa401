"""Tokenizers that are well-formed and hostile: they grow, loop, backtrack or pad without end."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["tokenizer_changed"]

_PATTERNS = (
    *("(a+)+$", "(a|a)*b", "(.*)*x", "(?=(a+))*b", r"(\w*)*\W\W", "((a*)*)*c", "(?<=a*)b"),
    *(
        "",
        "(",
        "[",
        "a{1000000}",
        "(a{1000}){1000}",
        r"\p{L}{0,60000}",
        r"(?:\1)*",
        "\0",
        "(" * 5000,
    ),
)
_LARGE = (-1, 0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**40, 2**63, 2**64 - 1)


def tokenizer_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Make one part of a tokenizer.json hostile."""
    tree = json.loads(data)
    _CHANGES[rng.integers(len(_CHANGES))](tree, rng)
    return json.dumps(tree).encode()


def _pattern(rng: np.random.Generator) -> dict[str, str]:
    return {"Regex": _PATTERNS[rng.integers(len(_PATTERNS))]}


def _large(rng: np.random.Generator) -> int:
    return _LARGE[rng.integers(len(_LARGE))]


def _split(tree: dict[str, Any], rng: np.random.Generator) -> None:
    behavior = ("Isolated", "Removed", "MergedWithNext", "Contiguous")[rng.integers(4)]
    cut = {"type": "Split", "pattern": _pattern(rng), "behavior": behavior, "invert": False}
    tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [cut, tree["pre_tokenizer"]]}


def _grow(tree: dict[str, Any], rng: np.random.Generator) -> None:
    """Double each a, many times."""
    times, text = int(rng.choice([1, 10, 40, 200])), "a" * int(rng.choice([0, 2, 1000]))
    each = {"type": "Replace", "pattern": {"String": "a"}, "content": text}
    tree["normalizer"] = {"type": "Sequence", "normalizers": [each] * times}


def _replace(tree: dict[str, Any], rng: np.random.Generator) -> None:
    tree["normalizer"] = {"type": "Replace", "pattern": _pattern(rng), "content": "aa"}


def _pad(tree: dict[str, Any], rng: np.random.Generator) -> None:
    tree["padding"] = {
        **{"strategy": {"Fixed": _large(rng)}, "direction": "Right"},
        **{"pad_to_multiple_of": _large(rng), "pad_id": _large(rng)},
        **{"pad_type_id": 0, "pad_token": "a"},
    }


def _truncate(tree: dict[str, Any], rng: np.random.Generator) -> None:
    tree["truncation"] = {
        **{"direction": "Right", "max_length": _large(rng)},
        **{"strategy": "LongestFirst", "stride": _large(rng)},
    }


def _renumber(tree: dict[str, Any], rng: np.random.Generator) -> None:
    """Give words of the vocabulary other numbers, or one that two have."""
    words = tree["model"]["vocab"]
    words[sorted(words)[rng.integers(len(words))]] = _large(rng)


def _forget(tree: dict[str, Any], rng: np.random.Generator) -> None:
    """Drop words that others need."""
    words = tree["model"]["vocab"]
    for word in (*"#[a", "[UNK]", "[CLS]", "aa"):
        words.pop(word, None)
    tree["added_tokens"] = tree["added_tokens"][: rng.integers(3)]


def _merge(tree: dict[str, Any], rng: np.random.Generator) -> None:
    """Merge what makes itself, is no word, or is nothing."""
    pairs = (["a", "a"], ["aa", "aa"], ["", "a"], ["a", ""], ["", ""], ["x y", "z"], ["a"], "a a")
    chosen = [pairs[i] for i in rng.integers(len(pairs), size=rng.integers(1, 9))]
    tree["model"]["merges"] = chosen
    tree["model"]["vocab"] |= {"aaaa": 3} if rng.random() < 0.5 else {}


def _add(tree: dict[str, Any], rng: np.random.Generator) -> None:
    """Add a token that is empty, known, or numbered as another."""
    about = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), True)
    content = ("", "a", " ", "\0", "<|im_start|>", "a" * 10_000)[rng.integers(6)]
    tree["added_tokens"].append({"id": _large(rng), "content": content, **about})


def _model(tree: dict[str, Any], rng: np.random.Generator) -> None:
    """Take another model, or other options of it."""
    words = list(tree["model"]["vocab"])
    match rng.integers(4):
        case 0:
            score = (0.0, -1e308, 1e308)[rng.integers(3)]
            table = [[word, score] for word in words]
            tree["model"] = {"type": "Unigram", "unk_id": _large(rng), "vocab": table}
        case 1:
            tree["model"] = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "none"}
        case 2:
            tree["model"]["unk_token"] = "none"
            tree["model"]["max_input_chars_per_word"] = _large(rng)
            tree["model"]["continuing_subword_prefix"] = ("", "a", "##")[rng.integers(3)]
        case _:
            tree["model"]["dropout"] = (0.5, -1.0, 2.0, 1e-320)[rng.integers(4)]


def _nest(tree: dict[str, Any], rng: np.random.Generator) -> None:
    depth = int(rng.choice([10, 100, 400]))
    for _ in range(depth):
        tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [tree["pre_tokenizer"]]}


def _process(tree: dict[str, Any], rng: np.random.Generator) -> None:
    """Put tokens around a text: unknown ones, or very many."""
    ids = [_large(rng)] * int(rng.choice([0, 1, 10_000]))
    special = {"a": {"id": "a", "ids": ids, "tokens": ["a"] * len(ids)}}
    single = [{"SpecialToken": {"id": ("a", "b")[rng.integers(2)], "type_id": _large(rng)}}]
    tree["post_processor"] = {
        **{"type": "TemplateProcessing", "single": single * int(rng.choice([1, 1000]))},
        **{"pair": [], "special_tokens": special},
    }


_CHANGES: tuple[Callable[[dict[str, Any], np.random.Generator], None], ...] = (
    *(_split, _split, _grow, _replace, _pad, _truncate, _renumber, _forget, _merge),
    *(_add, _model, _nest, _process),
)
