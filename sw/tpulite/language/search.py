"""Passages that answer a question: those whose vectors are closest to its own."""

import contextlib
import fnmatch
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tpulite.atomic import write_whole
from tpulite.cache import cache_home
from tpulite.language.encoder import Embedder
from tpulite.language.sentences import Sentences


@dataclass(frozen=True)
class KeptVectors:
    """A folder of vectors. Each is written whole or not at all, so any number may write at once.

    A folder that cannot be written keeps nothing.
    """

    folder: Path  #: Where they are; it is made when it is needed.

    @classmethod
    def of(cls, key: str) -> "KeptVectors":
        """Return those of an encoder in the user's cache, by its key."""
        return cls(cache_home() / "vectors" / key)

    def get(self, text: str) -> np.ndarray | None:
        """Return the vector of a text, float32 [width]; None if it is not there."""
        try:
            return np.frombuffer(self._path(text).read_bytes(), "<f4")
        except (OSError, ValueError):
            return None

    def put(self, text: str, vector: np.ndarray) -> None:
        """Keep a vector."""
        path, data = self._path(text), vector.astype("<f4").tobytes()
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, partial(Path.write_bytes, data=data))

    def _path(self, text: str) -> Path:
        name = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return self.folder / name[:2] / f"{name}.f32"


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


@dataclass(frozen=True)
class Found:
    """A passage, and how close it is to a question."""

    passage: Passage  #: The passage.
    score: float  #: Cosine of the angle between both vectors.


@dataclass(frozen=True, eq=False)
class Index:
    """Passages with their vectors."""

    passages: Sequence[Passage]  #: The passages.
    vectors: np.ndarray  #: Ndarray of float32, [passages, width]. Their vectors, of length 1.
    embedded: int  #: How many vectors were computed, not kept from before.

    @classmethod
    def build(
        cls,
        passages: Sequence[Passage],
        embedder: Embedder,
        kept: KeptVectors | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> "Index":
        """Embed passages, equal texts once.

        Parameters
        ----------
        passages : sequence of Passage
            The passages, one at least.
        embedder : Embedder
            What computes vectors that are not known.
        kept : KeptVectors, optional
            Vectors from before; new ones are added as they come.
        progress : callable, optional
            Called with the number of vectors that were computed, and of all that have to be.
        """
        texts = dict.fromkeys(each.text for each in passages)
        found = {text: vector for text in texts if (vector := _known(kept, text)) is not None}
        missing = [text for text in texts if text not in found]
        for done, text in enumerate(missing, 1):
            found[text] = embedder.embed(text)
            if kept is not None:
                kept.put(text, found[text])
            if progress is not None:
                progress(done, len(missing))
        return cls(passages, np.stack([found[each.text] for each in passages]), len(missing))

    def closest(self, vector: np.ndarray, count: int) -> list[Found]:
        """Return the passages that are closest to a vector of length 1, the closest first."""
        # Row by row: a product's order of additions depends on how many rows there are.
        scores = (self.vectors * vector.astype(np.float64)).sum(axis=1)
        order = np.argsort(-scores, kind="stable")[:count]
        return [Found(self.passages[index], float(scores[index])) for index in order]


def _known(kept: KeptVectors | None, text: str) -> np.ndarray | None:
    return None if kept is None else kept.get(text)
