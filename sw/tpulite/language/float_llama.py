"""A model of the llama family in float32, all tokens of some texts at once."""

from collections.abc import Callable, Sequence

import numpy as np

from tpulite.language.llama import Llama

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
