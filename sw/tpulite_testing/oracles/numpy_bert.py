"""Float vectors of :class:`tpulite_testing.files.bert_files.BertFile`, by their definition."""

from math import erf

import numpy as np

from tpulite_testing.files.bert_files import BertFile

__all__ = ["bert_vector"]


def bert_vector(file: BertFile, ids: np.ndarray) -> np.ndarray:
    """Return the vector of tokens without padding, float64 [width], of length 1.

    Parameters
    ----------
    file : BertFile
        The encoder.
    ids : ndarray of int, [tokens]
        The tokens, control tokens included.
    """
    weights = {name: each.astype(np.float64) for name, each in file.weights().items()}

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[name].T + weights[f"{name}.bias"]

    def normal(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(axis=1, keepdims=True)
        x = x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + file.epsilon)
        return x * weights[name] + weights[f"{name}.bias"]

    x = weights["words"][ids] + weights["positions"][: len(ids)] + weights["types"][0]
    x = normal(x, "norm")
    depth = file.width // file.heads
    for layer in range(file.layers):
        query, key, value = (linear(x, f"{layer}.{name}") for name in ("query", "key", "value"))
        seen = np.empty_like(x)
        for begin in range(0, file.width, depth):
            head = slice(begin, begin + depth)
            scores = query[:, head] @ key[:, head].T / np.sqrt(depth)
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            seen[:, head] = shares / shares.sum(axis=1, keepdims=True) @ value[:, head]
        x = normal(x + linear(seen, f"{layer}.output"), f"{layer}.attention_norm")
        up = linear(x, f"{layer}.up")
        up = up * (1 + np.vectorize(erf)(up / np.sqrt(2))) / 2
        x = normal(x + linear(up, f"{layer}.down"), f"{layer}.feed_norm")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)
