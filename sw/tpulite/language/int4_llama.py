"""Weights of 4 bits for a model of the llama family, rounded so that its texts lose least."""

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tpulite
from tpulite.language.kept import kept_bytes
from tpulite.language.llama import Llama
from tpulite.quant.int4 import damped, int4_rows
from tpulite.runtime.compile_cache import add_sources

Rows = tuple[np.ndarray, np.ndarray]
"""A matrix as integers, int8, and what 1 means in each row, float32."""


_SOURCES = (
    "language/int4_llama.py",
    "quant/int4.py",
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


Product = Callable[..., list[np.ndarray]]
"""Takes activations [tokens, columns] and names of matrices; returns the product with each."""


def run_llama(
    model: Llama,
    texts: Sequence[Sequence[int]],
    product: Product | None = None,
    progress: Callable[[str], None] | None = None,
) -> np.ndarray:
    """Return what the head multiplies, float32 [tokens of all texts, width].

    Texts do not see each other, and each begins at position 0.

    Parameters
    ----------
    product : callable, optional
        Computes all products with weights; in floats by default.
    """
    sizes, weights = model.sizes, model.weights
    product = product or (lambda x, *names: [x @ weights[name].T for name in names])
    which = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    places = np.concatenate([np.arange(len(text)) for text in texts])
    order = np.arange(len(places))
    seen = (which[:, None] == which) & (order[:, None] >= order)
    rates = float(sizes.base) ** (-np.arange(0, sizes.depth, 2) / sizes.depth)
    angles = places[:, None, None] * rates
    turn = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    x = weights["embedding"][np.concatenate(texts)]
    for i in range(sizes.layers):
        if progress is not None:
            progress(f"layer {i + 1} of {sizes.layers}")
        normal = _normal(model, x, f"{i}.attention_norm")
        query, key, value = product(normal, f"{i}.query", f"{i}.key", f"{i}.value")
        (out,) = product(_attention(model, query, key, value, turn, seen), f"{i}.output")
        x = x + out
        gate, up = product(_normal(model, x, f"{i}.feed_norm"), f"{i}.gate", f"{i}.up")
        (down,) = product(gate / (1 + np.exp(-gate)) * up, f"{i}.down")
        x = x + down
    return _normal(model, x, "norm")


def _normal(model: Llama, x: np.ndarray, gain: str) -> np.ndarray:
    root = np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(model.sizes.epsilon))
    return x / root * model.weights[gain]


def _attention(
    model: Llama,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    turn: tuple[np.ndarray, np.ndarray],
    seen: np.ndarray,
) -> np.ndarray:
    """Return [tokens, heads · depth]; each token sees those that ``seen`` [tokens, tokens] says."""
    sizes = model.sizes
    shared = sizes.heads // sizes.key_heads
    query = _turned(query.reshape(-1, sizes.heads, sizes.depth), *turn)
    key = _turned(key.reshape(-1, sizes.key_heads, sizes.depth), *turn)
    found = np.empty_like(query)
    for head in range(sizes.heads):
        scores = query[:, head] @ key[:, head // shared].T * np.float32(sizes.depth**-0.5)
        scores = np.where(seen, scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        values = value.reshape(-1, sizes.key_heads, sizes.depth)[:, head // shared]
        found[:, head] = shares / shares.sum(axis=1, keepdims=True) @ values
    return found.reshape(len(found), -1)


def _turned(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)
