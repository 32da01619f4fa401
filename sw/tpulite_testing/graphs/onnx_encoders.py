"""Small float encoders in ONNX, as exporters of transformers write them."""

import math
from dataclasses import dataclass, field

import numpy as np
import onnx

from tpulite_testing.files.onnx_builder import OnnxBuilder

__all__ = ["OnnxEncoder"]

_HIDDEN = 2
"""How many times wider the layer between both dense ones is."""

_WORDS = 40
"""Rows of the table of words."""

_OUTLIER = 3
"""Channel that is larger than the others."""


@dataclass
class OnnxEncoder:
    """An encoder of one block."""

    #: Its sizes.
    tokens: int = 16
    width: int = 32
    heads: int = 2
    #: Whether normalizations come before attention and dense layers, not behind residual sums.
    first: bool = False
    #: Whether normalizations are nine operators and GELU is one by tanh, not one operator and one
    #: by erf.
    spelled: bool = False
    masked: bool = True  #: Whether an input says which tokens are padding.
    #: Whether that becomes a number that is added, 0 or -1e4, as in BERT, not a choice of -inf.
    added: bool = False
    #: Whether inputs are words and segments, whose embeddings are normalized first, as in BERT.
    words: bool = False
    #: Whether the residual connection begins with the input, not with a dense layer.
    straight: bool = False
    opset: int = 17  #: Of the file: from 18 on the axes of a mean are an input.
    last_axis: int = -1  #: How the normalized axis is named: -1, or 2.
    #: How much larger one channel of the residual connection is than the others.
    outlier: float = 1.0
    _rng: np.random.Generator = field(init=False, default_factory=lambda: np.random.default_rng(48))

    def build(self) -> bytes:
        """Return the file; its inputs are ``x``, or words and segments, and perhaps ``mask``."""
        b = OnnxBuilder(opset=self.opset)
        x = self._embedded(b) if self.words else b.input("x", (1, self.tokens, self.width))
        x = x if self.straight or self.words else self._linear(b, x, self.width, self.outlier)
        if self.first:
            x = b.node("Add", x, self._attention(b, self._normalized(b, x)))
            x = b.node("Add", x, self._dense(b, self._normalized(b, x)))
            return b.build(self._linear(b, self._normalized(b, x), 10))
        x = self._normalized(b, b.node("Add", x, self._attention(b, x)))
        return b.build(self._normalized(b, b.node("Add", x, self._dense(b, x))))

    def samples(self, count: int) -> list[dict[str, np.ndarray]]:
        """Return inputs; of those with a mask the last tokens are padding."""
        feeds = []
        for index in range(count):
            if self.words:
                feed = {"words": self._rng.integers(0, _WORDS, (1, self.tokens))}
                feed["segments"] = self._rng.integers(0, 2, (1, self.tokens))
            else:
                feed = {"x": self._draw(1, self.tokens, self.width)}
                feed["x"][..., _OUTLIER] *= self.outlier if self.straight else 1
            if self.masked:
                kept = self.tokens - index % 5
                feed["mask"] = (np.arange(self.tokens) < kept).astype(np.int64)[None]
            feeds.append(feed)
        return feeds

    def _draw(self, *shape: int) -> np.ndarray:
        return self._rng.normal(size=shape).astype(np.float32)

    def _embedded(self, b: OnnxBuilder) -> str:
        words, segments = (b.input(x, (1, self.tokens), "int64") for x in ("words", "segments"))
        x = b.node("Gather", self._draw(_WORDS, self.width), words)
        x = b.node("Add", x, b.node("Gather", self._draw(2, self.width), segments))
        places = np.arange(self.tokens)[None]
        x = b.node("Add", x, b.node("Gather", self._draw(self.tokens, self.width), places))
        return self._normalized(b, x)

    def _linear(self, b: OnnxBuilder, x: str, columns: int, outlier: float = 1.0, rows=0) -> str:
        rows = rows or self.width
        weight = self._draw(rows, columns) / np.float32(math.sqrt(rows))
        weight[:, min(_OUTLIER, columns - 1)] *= outlier
        return b.node("Add", b.node("MatMul", x, weight), self._draw(columns) / 4)

    def _normalized(self, b: OnnxBuilder, x: str) -> str:
        gamma, beta = 1 + self._draw(self.width) / 8, self._draw(self.width) / 8
        if not self.spelled:
            return b.node("LayerNormalization", x, gamma, beta, axis=self.last_axis)
        d = b.node("Sub", x, self._mean(b, x))
        variance = self._mean(b, b.node("Pow", d, np.float32(2)))
        y = b.node("Div", d, b.node("Sqrt", b.node("Add", variance, np.float32(1e-12))))
        return b.node("Add", b.node("Mul", y, gamma), beta)

    def _mean(self, b: OnnxBuilder, x: str) -> str:
        if self.opset < 18:
            return b.node("ReduceMean", x, axes=[self.last_axis])
        return b.node("ReduceMean", x, np.array([self.last_axis]))

    def _dense(self, b: OnnxBuilder, x: str) -> str:
        hidden = self._linear(b, x, _HIDDEN * self.width)
        return self._linear(b, self._gelu(b, hidden), self.width, rows=_HIDDEN * self.width)

    def _gelu(self, b: OnnxBuilder, x: str) -> str:
        half, one = np.float32(0.5), np.float32(1)
        if self.spelled:
            cube = b.node("Mul", b.node("Pow", x, np.float32(3)), np.float32(0.044715))
            inner = b.node("Mul", b.node("Add", x, cube), np.float32(math.sqrt(2 / math.pi)))
            curve = b.node("Add", b.node("Tanh", inner), one)
            return b.node("Mul", b.node("Mul", x, half), curve)
        curve = b.node("Add", b.node("Erf", b.node("Div", x, np.float32(math.sqrt(2)))), one)
        return b.node("Mul", b.node("Mul", x, curve), half)

    def _attention(self, b: OnnxBuilder, x: str) -> str:
        depth = self.width // self.heads

        def heads(*order: int) -> str:
            y = self._linear(b, x, self.width)
            y = b.node("Reshape", y, np.array([1, self.tokens, self.heads, depth]))
            return b.node("Transpose", y, perm=order)

        scores = b.node("MatMul", heads(0, 2, 1, 3), heads(0, 2, 3, 1))
        scores = b.node("Div", scores, np.float32(math.sqrt(depth)))
        if self.masked:
            scores = b.node("Add", scores, self._mask(b))
        shares = b.node("Softmax", scores, axis=-1)
        y = b.node("Transpose", b.node("MatMul", shares, heads(0, 2, 1, 3)), perm=[0, 2, 1, 3])
        return self._linear(
            b, b.node("Reshape", y, np.array([1, self.tokens, self.width])), self.width
        )

    def _mask(self, b: OnnxBuilder) -> str:
        """Return the mask as PyTorch's dynamo writes it: repeated by a conjunction with ones."""
        mask = b.input("mask", (1, self.tokens), "int64")
        if self.added:
            mask = b.node("Unsqueeze", b.node("Unsqueeze", mask, np.array([1])), np.array([2]))
            mask = b.node("Cast", mask, to=onnx.TensorProto.FLOAT)
            return b.node("Mul", b.node("Sub", np.float32(1), mask), np.float32(-1e4))
        mask = b.node("Cast", mask, to=onnx.TensorProto.BOOL)
        mask = b.node("Unsqueeze", mask, np.array([1, 2]))
        mask = b.node("And", np.ones((1, 1, self.tokens, 1), bool), mask)
        return b.node("Where", mask, np.float32(0), np.array(-np.inf, np.float32))
