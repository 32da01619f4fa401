"""Weights of 4 bits for a model of the llama family, rounded so that its texts lose least."""

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tpulite
from tpulite.language.float_llama import run_llama
from tpulite.language.kept import kept_bytes
from tpulite.language.llama import Llama
from tpulite.quant.int4 import damped, int4_rows
from tpulite.runtime.compile_cache import add_sources

Rows = tuple[np.ndarray, np.ndarray]
"""A matrix as integers, int8, and what 1 means in each row, float32."""


_SOURCES = (
    *("language/float_llama.py", "language/int4_llama.py"),
    *("quant/compensation.py", "quant/int4.py"),
)
"""Sources of this package that decide what the weights become."""


def kept_int4_weights(
    model: Llama,
    texts: Sequence[Sequence[int]],
    *,
    cache: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Mapping[str, Rows]:
    """Return :func:`int4_weights`, perhaps from the user's cache, where they are kept."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((model.sizes, [list(text) for text in texts])).encode())
    add_sources(digest, Path(tpulite.__path__[0]), _SOURCES)
    for name, weight in model.weights.items():
        digest.update(f"{name} {weight.shape}\n".encode())
        digest.update(np.ascontiguousarray(weight).data)

    def make() -> bytes:
        made = int4_weights(model, texts, progress).items()
        arrays: dict[str, Any] = {f"{name}/{i}": x[i] for name, x in made for i in (0, 1)}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    data = kept_bytes("int4", f"{digest.hexdigest()}.npz", make, cache=cache)
    with np.load(io.BytesIO(data)) as arrays:
        names = (each.removesuffix("/0") for each in arrays if each.endswith("/0"))
        return {name: (arrays[f"{name}/0"], arrays[f"{name}/1"]) for name in names}


def int4_weights(
    model: Llama,
    texts: Sequence[Sequence[int]],
    progress: Callable[[str], None] | None = None,
) -> Mapping[str, Rows]:
    """Return the matrices that tokens are multiplied by, from -8 to 7, by name.

    The model reads the texts in float32, layer by layer. Each weight makes up for the errors of
    those before it in products with what the layer reads (GPTQ, Frantar et al.,
    arXiv:2210.17323), which matrices that are already rounded have computed.

    Parameters
    ----------
    texts : sequence of sequence of int
        Tokens of each text; without texts, each row has the scale of its least squared error.
    progress : callable, optional
        Called with a line of text at every layer.
    """
    made: dict[str, Rows] = {}
    if not texts:
        matrices = model.weights.items()
        return {name: int4_rows(x) for name, x in matrices if x.ndim == 2 and name != "embedding"}

    def product(x: np.ndarray, *names: str) -> list[np.ndarray]:
        moments = damped(np.matmul(x.T, x, dtype=np.float64))
        for name in names:
            made[name] = int4_rows(model.weights[name], moments, alone=True)
        return [x @ (rows * scale[:, None]).T for rows, scale in map(made.__getitem__, names)]

    last = run_llama(model, texts, product, progress)
    product(last, "head")
    return made
