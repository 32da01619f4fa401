"""Files tokenizer.json: read, and refused where they would take a library without end."""

import json
import math
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tpulite.needs import require_package

_PANIC = "PanicException"
"""What the library raises, as no Exception, where its Rust stops."""

_TOKENS = 1 << 22
"""More tokens than any vocabulary has."""

_GROWTH = 64
"""Most characters that normalizers may make of one."""


def open_tokenizer(file: Path) -> Any:
    """Return a ``tokenizers.Tokenizer`` that neither cuts nor pads.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If it is no tokenizer; it repeats what it repeats, ``(a+)+``, for which the library may try
        exponentially many ways, or replaces texts by far longer ones; or the package tokenizers is
        missing.
    """
    require_package("tokenizers", "language", "A tokenizer")
    try:
        tree = json.loads(file.read_text())
        _check_patterns(tree)
        _check_growth(tree)
        _check_template(tree)
        _check_vocabulary(tree)
        tree |= {"truncation": None, "padding": None}
        return import_module("tokenizers").Tokenizer.from_str(json.dumps(tree))
    except OSError:
        raise
    except Exception as error:  # anything: it is foreign code on a foreign file
        raise ValueError(f"{file} is no tokenizer: {error}") from error


def encoded(tokens: Any, text: str, *, special: bool) -> Any:
    """Return what a tokenizer makes of a text, perhaps between its control tokens.

    Raises
    ------
    ValueError
        If it cannot.
    """
    try:
        return tokens.encode(text, add_special_tokens=special)
    except BaseException as error:  # anything: it is foreign code with a foreign file's rules
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        raise ValueError(f"the tokenizer cannot read a text: {error}") from error


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects inside a value of JSON."""
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _check_patterns(tree: dict[str, Any]) -> None:
    """Refuse patterns that repeat a group with repeats in it."""
    for part in (tree.get("normalizer"), tree.get("pre_tokenizer"), tree.get("decoder")):
        for each in _parts(part):
            pattern = each.get("Regex", "")
            if isinstance(pattern, str) and _repeats_repeats(pattern):
                shown = pattern if len(pattern) <= 40 else f"{pattern[:40]}…"
                raise ValueError(f"its pattern {shown!r} repeats a group that repeats or chooses")


def _repeats_repeats(pattern: str) -> bool:
    """Tell whether a group with a repeat or a choice in it is repeated without a small limit."""
    groups, inside, index = [False], False, 0
    while index < len(pattern):
        mark = pattern[index]
        if mark == "\\":
            index += 2
            continue
        if inside:
            inside = mark != "]"
        elif mark == "[":
            inside = True
        elif mark == "(":
            groups.append(False)
        elif mark == ")" and len(groups) > 1:
            varies = groups.pop()
            if varies and pattern[index + 1 : index + 2] in ("+", "*", "{"):
                return True
            groups[-1] |= varies
        elif mark in "+*{|":
            groups[-1] = True
        index += 1
    return False


def _check_template(tree: dict[str, Any]) -> None:
    """Refuse templates with tokens that they do not describe, at which the library would stop."""
    for each in _parts(tree.get("post_processor")):
        known = each.get("special_tokens")
        if not isinstance(known, dict):
            continue
        for item in _parts([each.get("single"), each.get("pair")]):
            token = item.get("SpecialToken")
            if isinstance(token, dict) and token.get("id") not in known:
                raise ValueError(f"its template has the token {token.get('id')!r}, which it lacks")


def _check_vocabulary(tree: dict[str, Any]) -> None:
    """Refuse tokens with huge numbers: the library has a place for each number below."""
    model = tree.get("model")
    known = model.get("vocab") if isinstance(model, dict) else None
    numbers = list(known.values()) if isinstance(known, dict) else []
    numbers += [each.get("id") for each in _parts(tree.get("added_tokens"))]
    for number in numbers:
        if isinstance(number, int) and number >= _TOKENS:
            raise ValueError(f"it has the token {number:,}")


def _check_growth(tree: dict[str, Any]) -> None:
    """Refuse normalizers that make very long texts of short ones."""
    growth = 1.0
    for part in (tree.get("normalizer"), tree.get("decoder")):
        for each in _parts(part):
            text = each.get("content")
            if each.get("type") == "Replace" and isinstance(text, str):
                pattern = each.get("pattern")
                taken = pattern.get("String") if isinstance(pattern, dict) else None
                if taken == "" or (isinstance(pattern, dict) and _matches_nothing(pattern)):
                    raise ValueError("it replaces what is empty, at which the library would stop")
                growth *= max(1.0, len(text) / max(1, len(taken or "")))
    if growth > _GROWTH:
        raise ValueError(f"its replacements make up to 2^{math.log2(growth):.0f} characters of one")


def _matches_nothing(pattern: dict[str, Any]) -> bool:
    """Tell whether a pattern matches an empty text, as far as Python knows its syntax."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of patterns that are unusual in Python
        try:
            return re.match(pattern.get("Regex", "x"), "") is not None
        except Exception:  # anything: it is a foreign pattern in another syntax
            return False
