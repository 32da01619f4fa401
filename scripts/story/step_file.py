"""The network of one word as a TFLite file of int8, whose states are keys and values.

The only input is the word, as a row with a 1. A state holds the tokens in view, the newest last:
each run drops the first and appends its own. Heads are computed in one product: the query is
repeated for each, with zeros outside its head; so is the result.
"""

from collections.abc import Mapping

import numpy as np

from story.network import EPSILON, Sizes
from tpulite_testing.files.tflite_builder import Builder

_MOST = 127
"""Largest magnitude of a weight."""

_STEPS = 255
"""Steps of 8 bits."""

Range = tuple[float, float]


def step_file(
    sizes: Sizes, weights: Mapping[str, np.ndarray], ranges: Mapping[str, Range]
) -> bytes:
    """Return the file.

    Parameters
    ----------
    ranges : mapping of str to (float, float)
        Least and most value of every result of :meth:`story.network.Network.forward`.
    """
    return _Step(sizes, weights, ranges).file()


class _Step:
    """Blocks of the decoder for one token, [1, width] from one to the next."""

    def __init__(
        self, sizes: Sizes, weights: Mapping[str, np.ndarray], ranges: Mapping[str, Range]
    ) -> None:
        self._sizes, self._weights, self._ranges = sizes, weights, ranges
        self._b = Builder()

    def file(self) -> bytes:
        """Return the file of all blocks."""
        b, sizes = self._b, self._sizes
        for i in range(sizes.layers):
            for name in ("key", "value"):
                zeros = np.zeros((1, sizes.window, sizes.width), np.int8)
                b.variable(f"{i}.{name}", b.constant(zeros, self._symmetric(f"{i}.{name}")))
        word = b.rename(b.input((1, sizes.vocabulary), 1.0), "word")
        x = self._embedded(word)
        for i in range(sizes.layers):
            x = self._add(x, self._attended(i, self._normal(x, f"{i}.a")), f"{i}.middle")
            hidden = self._dense(self._normal(x, f"{i}.f"), f"{i}.up", f"{i}.hidden", relu=True)
            x = self._add(x, self._dense(hidden, f"{i}.down", f"{i}.fed"), f"{i + 1}.x")
        logits = self._dense(self._normal(x, "end"), "head", "logits")
        return b.build(logits, name="story")

    def _symmetric(self, name: str) -> float:
        """Return the scale of a tensor whose zero point is 0."""
        return max(abs(x) for x in self._ranges[name]) / _MOST

    def _affine(self, name: str) -> tuple[float, int]:
        """Return scale and zero point of a tensor whose range need not be symmetric."""
        low, high = self._ranges[name]
        low, high = min(low, 0.0), max(high, 0.0)
        scale = (high - low) / _STEPS
        return scale, round(-128 - low / scale)

    def _embedded(self, word: int) -> int:
        """Multiply by the rows of all words; the sum has one term, and is not rounded again."""
        scale = self._symmetric("0.x")
        rows = np.rint(self._weights["embedding"].T / np.float32(scale)).clip(-_MOST, _MOST)
        made = self._b.dense(word, rows.astype(np.int8), weight_scale=scale, scale=scale)
        return self._b.rename(made, "0.x")

    def _dense(
        self, x: int, weight: str, name: str, *, relu: bool = False, symmetric: bool = False
    ) -> int:
        """Multiply by weights with a scale for each output channel."""
        rows = self._weights[weight].T
        if weight.endswith("query"):
            rows = rows * np.float32(self._sizes.depth**-0.5)
        if weight.endswith("out"):
            rows = rows * np.float32(self._sizes.heads)  # the result of attention is a mean
        scales = np.abs(rows).max(1) / np.float32(_MOST)
        bias = self._weights.get(f"{weight}.bias")
        if bias is not None:
            given = np.float32(self._b.tensors[x].quantization.scale[0])
            bias = np.rint(bias / (given * scales)).astype(np.int32)
        scale, zero = (self._symmetric(name), 0) if symmetric else self._affine(name)
        made = self._b.dense(
            x,
            np.rint(rows / scales[:, None]).astype(np.int8),
            bias,
            weight_scale=scales,
            scale=scale,
            zero_point=zero,
            activation="RELU" if relu else "NONE",
        )
        return self._b.rename(made, name)

    def _add(self, x: int, y: int, name: str) -> int:
        return self._b.rename(self._b.add(x, y, *self._affine(name)), name)

    def _normal(self, x: int, name: str) -> int:
        """Divide by the root of the mean square."""
        b = self._b
        square = b.elementwise("MUL", x, x, *self._affine(f"{name}.square"))
        scale, zero = self._affine(f"{name}.mean")
        b.rename(square, f"{name}.square")
        mean = b.mean(square, (1,), scale, zero, keep_dims=True)
        epsilon = b.constant(np.full((1, 1), _MOST, np.int8), EPSILON / _MOST)
        root = b.unary("RSQRT", b.add(mean, epsilon, scale, zero), *self._affine(f"{name}.root"))
        b.rename(root, f"{name}.root")
        b.rename(mean, f"{name}.mean")
        return b.rename(b.elementwise("MUL", x, root, *self._affine(name)), name)

    def _attended(self, i: int, x: int) -> int:
        """Attend to what is in view."""
        b, sizes = self._b, self._sizes
        heads = np.kron(np.eye(sizes.heads), np.ones((1, sizes.depth))).astype(np.int8)
        own = b.constant(heads[None], 1.0)
        row = (1, 1, sizes.width)
        query, key, value = (
            b.reshape(self._dense(x, f"{i}.{name}", f"{i}.{name}", symmetric=True), row)
            for name in ("query", "key", "value")
        )
        query = b.elementwise("MUL", query, own, self._symmetric(f"{i}.query"))
        keys, values = self._kept(f"{i}.key", key), self._kept(f"{i}.value", value)
        options = {"options_type": "BatchMatMulOptions"}
        view = (1, sizes.heads, sizes.window)
        products = b.tensor(view, self._symmetric(f"{i}.products"), name=f"{i}.products")
        b.operator("BATCH_MATMUL", [query, keys], [products], adjY=True, **options)
        far = self._weights[f"{i}.distance"][:, ::-1]
        scale = np.abs(far).max() / _MOST
        distance = b.constant(np.rint(far / scale).astype(np.int8)[None], scale)
        scores = b.add(products, distance, *self._affine(f"{i}.scores"))
        shares = b.unary("SOFTMAX", scores, 1 / 256, -128, options_type="SoftmaxOptions", beta=1.0)
        scale = self._symmetric(f"{i}.mixed")
        mixed = b.tensor((1, sizes.heads, sizes.width), scale)
        b.operator("BATCH_MATMUL", [shares, values], [mixed], **options)
        mixed = b.elementwise("MUL", mixed, own, scale)
        b.rename(scores, f"{i}.scores")
        mixed = b.mean(mixed, (1,), scale / sizes.heads)  # one head of each column is not zero
        b.rename(mixed, f"{i}.mixed")
        return self._dense(mixed, f"{i}.out", f"{i}.attended")

    def _kept(self, name: str, new: int) -> int:
        """Append a token to a state, whose first one is dropped."""
        b, (_, window, width) = self._b, (1, self._sizes.window, self._sizes.width)
        handle = b.variable(name)
        old = b.read(handle, b.like(new, (1, window, width)))
        ends = [
            b.constant(np.array(each, np.int32))
            for each in ([0, 1, 0], [1, window, width], [1, 1, 1])
        ]
        rest = b.like(new, (1, window - 1, width))
        b.operator("STRIDED_SLICE", [old, *ends], [rest], options_type="StridedSliceOptions")
        kept = b.concat([rest, new], axis=1)
        b.assign(handle, kept)
        return kept
