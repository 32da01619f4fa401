"""Encoder blocks of vision transformers, as converters spell them in TFLite."""

from dataclasses import dataclass

import numpy as np

from tpulite_testing.files.tflite_builder import Builder

__all__ = ["EncoderBlock"]

_SCALE = 0.05


@dataclass(frozen=True)
class EncoderBlock:
    """Sizes of a block: tokens, their width, and heads that share it."""

    tokens: int = 197
    width: int = 192
    heads: int = 3
    seed: int = 2026

    def build(self) -> bytes:
        """Return the file of normalization, attention, normalization and two dense layers."""
        b = Builder()
        return b.build(self.add(b))

    def add(self, b: Builder) -> int:
        """Add the block, and its input, to a file; return its output."""
        rng = np.random.default_rng(self.seed)
        x = b.input((1, self.tokens, self.width), _SCALE, 3)
        attended = self._attention(b, rng, self._normalized(b, rng, x))
        x = b.add(x, self._dense(b, rng, attended, self.width, -9), _SCALE, -5)
        hidden = self._dense(b, rng, self._normalized(b, rng, x), 4 * self.width, 7)
        hidden = b.unary("GELU", hidden, 0.03, -122, options_type="GeluOptions")
        return b.add(x, self._dense(b, rng, hidden, self.width, 2), _SCALE, 1)

    def _dense(self, b: Builder, rng: np.random.Generator, x: int, outputs: int, zero: int) -> int:
        inputs = b.shape(x)[-1]
        weight = rng.integers(-127, 128, (outputs, inputs)).astype(np.int8)
        bias = rng.integers(-2000, 2001, outputs).astype(np.int32)
        w = b.constant(weight, 0.4 / 74 / np.sqrt(inputs))
        y = b.tensor((*b.shape(x)[:-1], outputs), _SCALE / 2, zero)
        options = {"options_type": "FullyConnectedOptions", "keepNumDims": True}
        return b.operator("FULLY_CONNECTED", [x, w, b.constant(bias, 1e-4)], [y], **options)

    def _normalized(self, b: Builder, rng: np.random.Generator, x: int) -> int:
        """LayerNorm: difference from the mean, its square, the mean of that, and its root."""
        mean = b.mean(x, (2,), 0.01, 4, keep_dims=True)
        difference = b.elementwise("SUB", x, mean, _SCALE, 1)
        square = b.elementwise("MUL", difference, difference, 0.1, -128)
        variance = b.mean(square, (2,), 0.08, -128, keep_dims=True)
        epsilon = b.constant(np.array([-127], np.int8), 1e-5, -128)
        root = b.unary("RSQRT", b.add(variance, epsilon, 0.08, -128), 0.015, -128)
        normal = b.elementwise("MUL", difference, root, 0.03, 2)
        gamma, beta = (rng.integers(-127, 128, self.width).astype(np.int8) for _ in range(2))
        scaled = b.elementwise("MUL", normal, b.constant(gamma, 0.01), 0.03, 0)
        return b.add(scaled, b.constant(beta, 0.01), 0.03, -1)

    def _attention(self, b: Builder, rng: np.random.Generator, x: int) -> int:
        depth, apart = self.width // self.heads, (1, self.tokens, self.heads, -1)
        heads = []
        for zero in (5, -3, 11):
            dense = b.reshape(self._dense(b, rng, x, self.width, zero), apart)
            heads.append(self._swapped(b, dense))
        query, key, value = heads
        options = {"options_type": "BatchMatMulOptions"}
        scores = b.tensor((1, self.heads, self.tokens, self.tokens), 0.08, -6)
        b.operator("BATCH_MATMUL", [query, key], [scores], adjY=True, **options)
        shares = b.unary("SOFTMAX", scores, 1 / 256, -128, options_type="SoftmaxOptions", beta=1.0)
        mixed = b.tensor((1, self.heads, self.tokens, depth), _SCALE / 4, 3)
        b.operator("BATCH_MATMUL", [shares, value], [mixed], **options)
        return b.reshape(self._swapped(b, mixed), (1, self.tokens, self.width))

    def _swapped(self, b: Builder, x: int) -> int:
        """TRANSPOSE of tokens and heads."""
        batch, first, second, depth = b.shape(x)
        order = b.constant(np.array([0, 2, 1, 3], np.int32))
        y = b.like(x, (batch, second, first, depth))
        return b.operator("TRANSPOSE", [x, order], [y], options_type="TransposeOptions")
