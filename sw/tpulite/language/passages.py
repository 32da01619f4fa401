"""Passages of text files: paragraphs, cut or joined so that an encoder takes them."""

import fnmatch
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpulite.language.sentences import Sentences

DOCUMENTS = ("*.md", "*.rst", "*.txt", "*.adoc", "*.org", "*.tex")
"""Names of files that people read."""

_MOST_BYTES = 1 << 20
"""Larger files are data, not text that people read."""

_SHORT = 4
"""A paragraph of less than one in so many of the tokens is joined with the next: a heading."""


@dataclass(frozen=True)
class Passage:
    """A part of a file."""

    file: Path  #: The file.
    line: int  #: Its first line, from 1.
    text: str  #: What it says.


def find_texts(folder: Path, patterns: Sequence[str] = DOCUMENTS) -> Iterator[tuple[Path, str]]:
    """Yield text files below a folder by name, and what they hold.

    Files are UTF-8 without zeros, of up to 1 MiB; links, hidden files and hidden folders are left
    out.

    Parameters
    ----------
    folder : Path
        The folder, or a file.
    patterns : sequence of str
        One of them must match the name of a file in a folder, such as ``*.md``.
    """
    for path in _files(folder, patterns) if folder.is_dir() else [folder]:
        try:
            if path.stat().st_size > _MOST_BYTES:
                continue
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if text.strip() and "\0" not in text:
            yield path, text


def _files(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Yield the files of a folder, then those of folders in it."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if not any(fnmatch.fnmatch(name, each) for each in patterns):
                continue
            if not name.startswith(".") and path.is_file() and not path.is_symlink():
                yield path


def split_passages(file: Path, text: str, sentences: Sentences) -> Iterator[Passage]:
    """Yield the passages of a text; each has a token at least, and none is too long.

    Blank lines part paragraphs. Short ones, such as headings, are joined with the next, unless that
    begins with a heading; long ones are cut behind lines, sentences or words.
    """
    held, first = "", 0
    for line, paragraph in _paragraphs(text):
        if held and paragraph.startswith("#") and not held.startswith("#"):
            yield from _cut(file, first, held, sentences)
            held = ""
        if held:
            paragraph = held + "\n" * (line - first - held.count("\n")) + paragraph
            line = first
        held, first = paragraph, line
        if len(sentences.spans(held)) >= sentences.room // _SHORT:
            yield from _cut(file, first, held, sentences)
            held = ""
    yield from _cut(file, first, held, sentences)


def _cut(file: Path, line: int, text: str, sentences: Sentences) -> Iterator[Passage]:
    """Yield passages that fit."""
    for begin, end in sentences.cut(text):
        yield Passage(file, line + text.count("\n", 0, begin), text[begin:end])


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield first lines, from 1, and texts of paragraphs."""
    lines: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            lines.append(line.rstrip())
        elif lines:
            yield number - len(lines), "\n".join(lines)
            lines = []
