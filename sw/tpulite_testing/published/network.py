"""A network under construction: layers as papers name them, with weights that keep the variance."""

from collections.abc import Sequence

import numpy as np

from tpulite_testing.sweep.case import Net

__all__ = ["Network"]

_SCALES = {"NONE": (0.05, 3), "RELU": (0.04, -128), "RELU6": (6 / 255, -128)}
"""Scale and zero point of what a convolution writes, by its fused activation."""

_SUM = 0.08, 2
"""Of residual sums."""

_SHARE = 1 / 256, -128
"""Of what is between 0 and 1."""

_SCORES = 0.08, -6
"""Of attention, before its softmax."""

_SPREAD = 73.0
"""Standard deviation of drawn weights."""


class Network(Net):
    """A TFLite file with the layers that published networks consist of.

    Activations are [1, H, W, C]. A fused or separate activation is named as in TFLite, or is
    ``SILU`` (a product with LOGISTIC), ``HARD_SWISH`` or ``PRELU``.
    """

    def layer(  # noqa: PLR0913 - what a paper says of a layer
        self,
        x: int,
        channels: int | None = None,
        kernel: int | tuple[int, int] = 1,
        stride: int = 1,
        activation: str = "RELU",
        *,
        dilation: int = 1,
        padding: str = "SAME",
        gain: float = 1.4,
    ) -> int:
        """Add a convolution, depthwise if it has no channels of its own, and its activation."""
        k = (kernel, kernel) if isinstance(kernel, int) else kernel
        c, depthwise = self.shape(x)[3], channels is None
        fused = activation if activation in _SCALES else "NONE"
        scale, zero_point = _SCALES[fused]
        taps = k[0] * k[1] * (1 if depthwise else c)
        shape = (1, *k, c) if depthwise else (channels, *k, c)
        y = self.conv(
            x,
            self.weights(*(int(n) for n in shape if n is not None)),
            self._rng.integers(-99, 100, c if channels is None else channels),
            weight_scale=gain / _SPREAD / taps**0.5,
            scale=scale,
            zero_point=zero_point,
            stride=(stride, stride if k[1] > 1 or k[0] == 1 else 1),
            dilation=(dilation, dilation if k[1] > 1 else 1),
            padding=padding,
            activation=fused,
            depthwise=depthwise,
        )
        return y if activation == fused else self.activate(y, activation)

    def activate(self, x: int, activation: str) -> int:
        """Add an activation that no convolution has."""
        match activation:
            case "SILU":
                return self.elementwise("MUL", x, self.unary("LOGISTIC", x, *_SHARE), 0.03, -118)
            case "HARD_SWISH":
                return self.unary("HARD_SWISH", x, 0.03, -115, options_type="HardSwishOptions")
            case "PRELU":
                slopes = self.constant(self.weights(1, 1, self.shape(x)[3]), 0.006)
                return self.operator("PRELU", [x, slopes], [self.tensor(self.shape(x), 0.05, 0)])
        return self.unary(activation, x, 0.03, -120)

    def hard_sigmoid(self, x: int) -> int:
        """Add min(max(x + 3, 0), 6) / 6, as Keras spells it."""
        three = self.constant(np.array(127, np.int8), 3 / 127)
        sixth = self.constant(np.array(127, np.int8), 1 / 6 / 127)
        clipped = self.add(x, three, 6 / 255, -128, activation="RELU6")
        return self.elementwise("MUL", clipped, sixth, *_SHARE)

    def excite(self, x: int, channels: int) -> int:
        """Add squeeze-excite by so many channels."""
        mean = self.mean(x, (1, 2), 0.02, -100, keep_dims=True)
        gate = self.layer(self.layer(mean, channels), self.shape(x)[3], activation="NONE", gain=4)
        return self.elementwise("MUL", x, self.hard_sigmoid(gate), 0.02, -100)

    def sum(self, a: int, b: int, activation: str = "NONE") -> int:
        """Add a residual sum."""
        return self.add(a, b, *_SUM, activation=activation)

    def pool_max(self, x: int, window: int, stride: int | None = None, padding="SAME") -> int:
        """Add MAX_POOL_2D; its stride is its window without one."""
        s = stride or window
        return self.pool("MAX_POOL_2D", x, (window, window), stride=(s, s), padding=padding)

    def average(self, x: int) -> int:
        """Add MEAN over height and width, which stay."""
        return self.mean(x, (1, 2), 0.02, -100, keep_dims=True)

    def classify(self, x: int, classes: int = 1000) -> int:
        """Add MEAN over height and width, and a dense layer."""
        mean = self.mean(x, (1, 2), 0.02, -100)
        scale = 2 / _SPREAD / self.shape(mean)[1] ** 0.5
        weight = self.weights(classes, self.shape(mean)[1])
        return self.dense(mean, weight, [5] * classes, weight_scale=scale, scale=0.05)

    def halves(self, x: int) -> list[int]:
        """Add SPLIT of the channels."""
        ends = [self.like(x, (*self.shape(x)[:3], self.shape(x)[3] // 2)) for _ in range(2)]
        options = {"options_type": "SplitOptions", "numSplits": 2}
        self.operator("SPLIT", [self.integers(3), x], ends, **options)
        return ends

    def transpose(self, x: int, order: Sequence[int]) -> int:
        """Add TRANSPOSE."""
        y = self.like(x, [self.shape(x)[axis] for axis in order])
        options = {"options_type": "TransposeOptions"}
        return self.operator("TRANSPOSE", [x, self.integers(*order)], [y], **options)

    def shuffle(self, x: int, groups: int = 2) -> int:
        """Add a shuffle of channels: RESHAPE, TRANSPOSE, RESHAPE."""
        _, h, w, c = self.shape(x)
        apart = self.reshape(x, (h, w, groups, c // groups))
        return self.reshape(self.transpose(apart, (0, 1, 3, 2)), (1, h, w, c))

    def resize(self, x: int, size: tuple[int, int], how: str = "NearestNeighbor") -> int:
        """Add RESIZE_NEAREST_NEIGHBOR, or RESIZE_BILINEAR with centers of pixels at halves."""
        bilinear = how == "Bilinear"
        return self.operator(
            "RESIZE_BILINEAR" if bilinear else "RESIZE_NEAREST_NEIGHBOR",
            [x, self.integers(*size)],
            [self.like(x, (1, *size, self.shape(x)[3]))],
            options_type=f"Resize{how}Options",
            alignCorners=False,
            halfPixelCenters=bilinear,
        )

    def enlarge(self, x: int, channels: int, kernel: int, stride: int = 2) -> int:
        """Add TRANSPOSE_CONV."""
        _, h, w, c = self.shape(x)
        weight = self.constant(
            self.weights(channels, kernel, kernel, c), stride / _SPREAD / kernel / c**0.5
        )
        shape = (1, h * stride, w * stride, channels)
        return self.operator(
            "TRANSPOSE_CONV",
            [self.integers(*shape), weight, x],
            [self.like_input(shape)],
            options_type="TransposeConvOptions",
            padding=0,
            strideH=stride,
            strideW=stride,
        )

    def dense_rows(self, x: int, outputs: int, *, biased: bool = True) -> int:
        """Add FULLY_CONNECTED of the last axis."""
        inputs = self.shape(x)[-1]
        operands = [x, self.constant(self.weights(outputs, inputs), 1 / _SPREAD / inputs**0.5)]
        if biased:
            bias = self._rng.integers(-99, 100, outputs).astype(np.int32)
            operands.append(self.constant(bias, 1e-4))
        y = self.like_input((*self.shape(x)[:-1], outputs))
        options = {"options_type": "FullyConnectedOptions", "keepNumDims": True}
        return self.operator("FULLY_CONNECTED", operands, [y], **options)

    def gelu(self, x: int) -> int:
        """Add GELU."""
        return self.unary("GELU", x, 0.03, -122, options_type="GeluOptions")

    def affine(self, x: int, activation: str = "NONE") -> int:
        """Add a gain and a bias for each channel, as a batch normalization that nothing folds."""
        c = self.shape(x)[-1]
        gain = self.constant(self._rng.integers(40, 128, c).astype(np.int8), 0.02)
        bias = self.constant(self.weights(c), 0.01)
        y = self.elementwise("MUL", x, gain, 0.06, 1)
        scale, zero_point = _SCALES[activation]
        return self.add(y, bias, scale, zero_point, activation=activation)

    def normalize(self, x: int) -> int:
        """Add layer normalization of the last axis, as converters spell it."""
        axis = (len(self.shape(x)) - 1,)
        mean = self.mean(x, axis, 0.01, 4, keep_dims=True)
        difference = self.elementwise("SUB", x, mean, 0.05, 1)
        square = self.elementwise("MUL", difference, difference, 0.1, -128)
        variance = self.mean(square, axis, 0.08, -128, keep_dims=True)
        epsilon = self.constant(np.array([-127], np.int8), 1e-5, -128)
        root = self.unary("RSQRT", self.add(variance, epsilon, 0.08, -128), 0.015, -128)
        return self.affine(self.elementwise("MUL", difference, root, 0.03, 2))

    def normalize_scale(self, x: int) -> int:
        """Add normalization of the last axis by the root mean square, as converters spell it."""
        axis = (len(self.shape(x)) - 1,)
        square = self.elementwise("MUL", x, x, 0.1, -128)
        mean = self.mean(square, axis, 0.08, -128, keep_dims=True)
        epsilon = self.constant(np.array([-127], np.int8), 1e-5, -128)
        root = self.unary("RSQRT", self.add(mean, epsilon, 0.08, -128), 0.015, -128)
        gain = self.constant(self.weights(self.shape(x)[-1]), 0.01)
        return self.elementwise("MUL", self.elementwise("MUL", x, root, 0.03, 2), gain, 0.03, 0)

    def heads(self, x: int, count: int) -> int:
        """Part the channels of rows in heads: [B, T, C] becomes [B, heads, T, C / heads]."""
        batch, tokens, width = self.shape(x)
        apart = self.reshape(x, (batch, tokens, count, width // count))
        return self.transpose(apart, (0, 2, 1, 3))

    def attend(self, query: int, key: int, value: int, bias: np.ndarray | None = None) -> int:
        """Add attention of heads, with a bias of the scores if given, and join the heads."""
        batch, heads, tokens, depth = self.shape(query)
        options = {"options_type": "BatchMatMulOptions"}
        scores = self.tensor((batch, heads, tokens, self.shape(key)[2]), *_SCORES)
        self.operator("BATCH_MATMUL", [query, key], [scores], adjY=True, **options)
        if bias is not None:
            scores = self.add(scores, self.constant(bias, 0.01), *_SCORES)
        softmax = {"options_type": "SoftmaxOptions", "beta": 1.0}
        shares = self.unary("SOFTMAX", scores, *_SHARE, **softmax)
        mixed = self.tensor((batch, heads, tokens, depth), 0.0125, 3)
        self.operator("BATCH_MATMUL", [shares, value], [mixed], **options)
        return self.reshape(self.transpose(mixed, (0, 2, 1, 3)), (batch, tokens, heads * depth))
