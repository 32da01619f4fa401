"""Small float decoders in ONNX, shaped as GPT-2 is, as PyTorch's exporter writes them."""

import math
from dataclasses import dataclass, field

import numpy as np

from tpulite_testing.files.onnx_builder import OnnxBuilder

__all__ = ["OnnxGpt"]

_WORDS = 40
"""Rows of the table of words."""


@dataclass
class OnnxGpt:
    """A decoder with positions of its own, layer normalizations and one product for q, k and v."""

    #: Its sizes.
    tokens: int = 8
    width: int = 32
    heads: int = 2
    blocks: int = 2
    _rng: np.random.Generator = field(init=False, default_factory=lambda: np.random.default_rng(31))

    def build(self) -> bytes:
        """Return the file; its input is ``words``."""
        b = OnnxBuilder()
        x = b.node(
            "Gather", self._draw(_WORDS, self.width), b.input("words", (1, self.tokens), "int64")
        )
        x = b.node("Add", x, self._draw(1, self.tokens, self.width))
        for _ in range(self.blocks):
            x = b.node("Add", self._attention(b, self._normalized(b, x)), x)
            x = b.node("Add", x, self._dense(b, self._normalized(b, x)))
        y = b.node("MatMul", self._normalized(b, x), self._draw(self.width, _WORDS) / 8)
        return b.build(y, dtype="float32")

    def samples(self, count: int) -> list[dict[str, np.ndarray]]:
        """Return inputs."""
        return [{"words": self._rng.integers(0, _WORDS, (1, self.tokens))} for _ in range(count)]

    def _draw(self, *shape: int) -> np.ndarray:
        return self._rng.normal(size=shape).astype(np.float32)

    def _normalized(self, b: OnnxBuilder, x: str) -> str:
        gamma, beta = 1 + self._draw(self.width) / 8, self._draw(self.width) / 8
        return b.node("LayerNormalization", x, gamma, beta, axis=-1)

    def _linear(self, b: OnnxBuilder, x: str, rows: int, columns: int) -> str:
        """Multiply as Conv1D of transformers does: with the matrix of all tokens."""
        x = b.node("Reshape", x, np.array([-1, rows]))
        weight = self._draw(rows, columns) / np.float32(math.sqrt(rows))
        y = b.node("Gemm", x, weight, self._draw(columns) / 4)
        return b.node("Reshape", y, np.array([1, self.tokens, columns]))

    def _dense(self, b: OnnxBuilder, x: str) -> str:
        x = self._linear(b, x, self.width, 2 * self.width)
        cube = b.node("Mul", b.node("Pow", x, np.float32(3)), np.float32(0.044715))
        inner = b.node("Mul", b.node("Add", x, cube), np.float32(math.sqrt(2 / math.pi)))
        curve = b.node("Add", b.node("Tanh", inner), np.float32(1))
        x = b.node("Mul", b.node("Mul", x, np.float32(0.5)), curve)
        return self._linear(b, x, 2 * self.width, self.width)

    def _attention(self, b: OnnxBuilder, x: str) -> str:
        depth = self.width // self.heads
        parts = b.outputs("Split", 3, self._linear(b, x, self.width, 3 * self.width), axis=2)
        shape = np.array([1, self.tokens, self.heads, depth])
        orders = [0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]
        q, k, v = (
            b.node("Transpose", b.node("Reshape", part, shape), perm=order)
            for part, order in zip(parts, orders, strict=True)
        )
        scores = b.node("Div", b.node("MatMul", q, k), np.float32(math.sqrt(depth)))
        shares = b.node("Softmax", b.node("Where", *self._order(b, scores)), axis=-1)
        y = b.node("Transpose", b.node("MatMul", shares, v), perm=[0, 2, 1, 3])
        y = b.node("Reshape", y, np.array([1, self.tokens, self.width]))
        return self._linear(b, y, self.width, self.width)

    def _order(self, b: OnnxBuilder, scores: str) -> tuple[str | np.ndarray, str, np.ndarray]:
        """Return which scores count, the scores, and what the others are replaced by."""
        seen = np.tri(self.tokens, dtype=bool)[None, None]
        extents = b.node("Shape", scores)
        rows, columns = (
            b.node(
                "Squeeze",
                b.node("Slice", extents, *(np.array([n]) for n in (a, a + 1, 0))),
                np.array([0]),
            )
            for a in (2, 3)
        )
        first, last = (
            b.node("Unsqueeze", x, np.array([0])) for x in (b.node("Sub", columns, rows), columns)
        )
        step, rows_axis, columns_axis = (np.array([n]) for n in (1, 2, 3))
        some = b.node("Slice", seen, first, last, rows_axis, step)
        mask = b.node("Slice", some, np.array([0]), last, columns_axis, step)
        return mask, scores, np.array(-1e4, np.float32)
