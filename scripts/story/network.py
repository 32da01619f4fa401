"""The float network of stories: a decoder in numpy, with its gradients.

Blocks are attention and a feed-forward part, each behind a normalization by the root mean square
and beside a residual connection. A token sees itself and the tokens before it through a window;
where the story has not begun, keys and values are zeros. What it sees by distance alone is a
learned table for each head, so that no position is an input, and a story may be of any length.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

EPSILON = np.float32(1e-2)
"""Added to mean squares; large enough for integers of 8 bits."""

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Sizes:
    """Extents: words, elements of a token, heads, blocks, hidden elements, tokens in view."""

    vocabulary: int
    width: int = 64
    heads: int = 4
    layers: int = 3
    hidden: int = 256
    window: int = 96

    @property
    def depth(self) -> int:
        """Elements of a head."""
        return self.width // self.heads


class Network:
    """Weights, results of all layers by name, gradients."""

    def __init__(self, sizes: Sizes, rng: np.random.Generator) -> None:
        self.sizes = sizes
        width, hidden, words = sizes.width, sizes.hidden, sizes.vocabulary

        def drawn(rows: int, columns: int, factor: float = 1.0) -> np.ndarray:
            made = rng.normal(0, factor / np.sqrt(rows), (rows, columns))
            return made.astype(np.float32)

        self.weights: Arrays = {"embedding": drawn(words, width) * np.float32(np.sqrt(words))}
        slopes = 0.5 ** np.arange(1, 2 * sizes.heads, 2)
        near = -slopes[:, None] * np.arange(sizes.window)
        for i in range(sizes.layers):
            for name in ("query", "key", "value"):
                self.weights[f"{i}.{name}"] = drawn(width, width)
            self.weights[f"{i}.distance"] = np.maximum(near, -4).astype(np.float32)
            if i == 0:  # two heads begin with the word before, and the one before that
                for head in (0, 1):
                    self.weights["0.distance"][head] = -4
                    self.weights["0.distance"][head, head + 1] = 2
            self.weights[f"{i}.out"] = drawn(width, width, 0.4)
            self.weights[f"{i}.up"] = drawn(width, hidden)
            self.weights[f"{i}.up.bias"] = np.zeros(hidden, np.float32)
            self.weights[f"{i}.down"] = drawn(hidden, width, 0.4)
        self.weights["head"] = drawn(width, words, 0.5)
        self.weights["head.bias"] = np.zeros(words, np.float32)

    def forward(self, tokens: np.ndarray) -> Arrays:
        """Return the results of all layers; ``logits`` [n, tokens, vocabulary]."""
        y: Arrays = {"tokens": tokens}
        y["0.x"] = self.weights["embedding"][tokens]
        for i in range(self.sizes.layers):
            self._normalize(y, f"{i}.x", f"{i}.a")
            self._attend(y, i)
            y[f"{i}.attended"] = y[f"{i}.mixed"] @ self.weights[f"{i}.out"]
            y[f"{i}.middle"] = y[f"{i}.x"] + y[f"{i}.attended"]
            self._normalize(y, f"{i}.middle", f"{i}.f")
            hidden = y[f"{i}.f"] @ self.weights[f"{i}.up"] + self.weights[f"{i}.up.bias"]
            y[f"{i}.hidden"] = np.maximum(hidden, 0)
            y[f"{i}.fed"] = y[f"{i}.hidden"] @ self.weights[f"{i}.down"]
            y[f"{i + 1}.x"] = y[f"{i}.middle"] + y[f"{i}.fed"]
        self._normalize(y, f"{self.sizes.layers}.x", "end")
        y["logits"] = y["end"] @ self.weights["head"] + self.weights["head.bias"]
        return y

    def backward(self, y: Arrays, gradient: np.ndarray) -> Arrays:
        """Return gradients of the weights from that of the logits."""
        g: Arrays = {}
        self._product(g, "head", y["end"], gradient)
        g["head.bias"] = gradient.sum((0, 1))
        d = self._denormalize(y, "end", gradient @ self.weights["head"].T)
        for i in reversed(range(self.sizes.layers)):
            self._product(g, f"{i}.down", y[f"{i}.hidden"], d)
            up = (d @ self.weights[f"{i}.down"].T) * (y[f"{i}.hidden"] > 0)
            self._product(g, f"{i}.up", y[f"{i}.f"], up)
            g[f"{i}.up.bias"] = up.sum((0, 1))
            d = d + self._denormalize(y, f"{i}.f", up @ self.weights[f"{i}.up"].T)
            self._product(g, f"{i}.out", y[f"{i}.mixed"], d)
            inner = self._attention_gradient(y, g, i, d @ self.weights[f"{i}.out"].T)
            d = d + self._denormalize(y, f"{i}.a", inner)
        g["embedding"] = np.zeros_like(self.weights["embedding"])
        np.add.at(g["embedding"], y["tokens"], d)
        return g

    def _normalize(self, y: Arrays, x: str, name: str) -> None:
        y[f"{name}.square"] = np.square(y[x])
        y[f"{name}.mean"] = y[f"{name}.square"].mean(-1, keepdims=True)
        y[f"{name}.root"] = 1 / np.sqrt(y[f"{name}.mean"] + EPSILON)
        y[name] = y[x] * y[f"{name}.root"]

    def _denormalize(self, y: Mapping[str, np.ndarray], name: str, d: np.ndarray) -> np.ndarray:
        """Return the gradient of what was normalized."""
        return y[f"{name}.root"] * (d - y[name] * (d * y[name]).mean(-1, keepdims=True))

    def _product(self, g: Arrays, name: str, x: np.ndarray, d: np.ndarray) -> None:
        g[name] = x.reshape(-1, x.shape[-1]).T @ d.reshape(-1, d.shape[-1])

    def _split(self, x: np.ndarray) -> np.ndarray:
        batch, tokens, _ = x.shape
        return x.reshape(batch, tokens, self.sizes.heads, -1).transpose(0, 2, 1, 3)

    def _joined(self, x: np.ndarray) -> np.ndarray:
        batch, heads, tokens, depth = x.shape
        return x.transpose(0, 2, 1, 3).reshape(batch, tokens, heads * depth)

    def _distances(self, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances [tokens, tokens], and which are in view."""
        order = np.arange(tokens)
        apart = order[:, None] - order
        inside = (apart >= 0) & (apart < self.sizes.window)
        return np.where(inside, apart, 0), inside

    def _attend(self, y: Arrays, i: int) -> None:
        """Compute the shares of all tokens in view; those of zeros in front are only a sum."""
        for name in ("query", "key", "value"):
            y[f"{i}.{name}"] = self._split(y[f"{i}.a"] @ self.weights[f"{i}.{name}"])
        y[f"{i}.query"] *= np.float32(self.sizes.depth**-0.5)
        far = self.weights[f"{i}.distance"]
        tokens = y[f"{i}.a"].shape[1]
        apart, inside = self._distances(tokens)
        products = y[f"{i}.query"] @ y[f"{i}.key"].transpose(0, 1, 3, 2)
        y[f"{i}.products"] = products
        scores = np.where(inside, products + far[:, apart], np.float32(-1e9))
        y[f"{i}.scores"] = scores
        most = np.maximum(scores.max(-1, keepdims=True), far.max())
        shares = np.exp(scores - most)
        sums = np.exp(far)[:, ::-1].cumsum(1)[:, ::-1]
        empty = np.zeros((len(sums), tokens), sums.dtype)
        count = min(tokens, self.sizes.window - 1)
        empty[:, :count] = sums[:, 1 : count + 1]
        total = shares.sum(-1, keepdims=True) + empty[..., None] * np.exp(-most)
        y[f"{i}.shares"] = shares / total
        y[f"{i}.scale"] = np.exp(-most) / total
        y[f"{i}.mixed"] = self._joined(y[f"{i}.shares"] @ y[f"{i}.value"])

    def _attention_gradient(self, y: Arrays, g: Arrays, i: int, d: np.ndarray) -> np.ndarray:
        """Return the gradient of what attention begins with."""
        d, shares = self._split(d), y[f"{i}.shares"]
        d_shares = d @ y[f"{i}.value"].transpose(0, 1, 3, 2)
        mean = (d_shares * shares).sum(-1, keepdims=True)
        d_scores = shares * (d_shares - mean)
        parts = {"value": shares.transpose(0, 1, 3, 2) @ d}
        factor = np.float32(self.sizes.depth**-0.5)
        parts["query"] = d_scores @ y[f"{i}.key"] * factor
        parts["key"] = d_scores.transpose(0, 1, 3, 2) @ y[f"{i}.query"]
        g[f"{i}.distance"] = self._distance_gradient(i, d_scores.sum(0), (mean * y[f"{i}.scale"]))
        inner = np.zeros_like(y[f"{i}.a"])
        for name, part in parts.items():
            part = self._joined(part)
            self._product(g, f"{i}.{name}", y[f"{i}.a"], part)
            inner += part @ self.weights[f"{i}.{name}"].T
        return inner

    def _distance_gradient(self, i: int, seen: np.ndarray, empty: np.ndarray) -> np.ndarray:
        """Return the gradient of a table, from scores [heads, tokens, tokens] and the zeros."""
        far, tokens = self.weights[f"{i}.distance"], seen.shape[1]
        apart, inside = self._distances(tokens)
        made = np.zeros_like(far)
        for head in range(len(far)):
            made[head] = np.bincount(apart[inside], seen[head][inside], self.sizes.window)
        before = np.zeros_like(far)
        sums = empty.sum(0)[..., 0].cumsum(1)
        count = min(tokens, self.sizes.window - 1)
        before[:, 1 : count + 1] = sums[:, :count]
        before[:, count + 1 :] = sums[:, -1:]
        return made - np.exp(far) * before
