"""The sentences beside the drawings, from captions.toml."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path


@cache
def _texts() -> dict[str, dict[str, str]]:
    """Return all texts, each as one line."""
    pages = tomllib.loads(Path(__file__).with_name("captions.toml").read_text(encoding="utf-8"))
    return {
        page: {name: " ".join(text.split()) for name, text in texts.items()}
        for page, texts in pages.items()
    }


def texts_of(page: str) -> dict[str, str]:
    """Return the texts of a page by name."""
    return _texts()[page]


def captions_of(page: str, words: Mapping[str, object], **frames: int) -> list[tuple[int, str]]:
    """Return the captions of a scene, as :class:`learn.drawing.Scene` takes them.

    Parameters
    ----------
    page : str
        Table of captions.toml.
    frames : int
        For each text of the table, by its name, the frame from which on it is shown; ascending.

    Raises
    ------
    ValueError
        If texts and frames are not the same, or frames do not ascend.
    """
    texts = texts_of(page)
    if list(texts) != list(frames) or list(frames.values()) != sorted(frames.values()):
        raise ValueError(f"[{page}] of captions.toml does not fit {frames}")
    return [(frame, texts[name].format(**words)) for name, frame in frames.items()]
