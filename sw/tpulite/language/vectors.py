"""Vectors of texts on disk, by all that they depend on."""

import contextlib
import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tpulite.atomic import write_whole
from tpulite.cache import cache_home


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
