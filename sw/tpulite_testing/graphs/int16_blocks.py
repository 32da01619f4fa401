"""Blocks of published networks in LiteRT's int16x8, with weights that are drawn."""

from collections.abc import Callable, Mapping

import numpy as np

from tpulite_testing.files.tflite_builder import Builder

__all__ = ["BLOCKS", "DrawnBuilder"]

_WEIGHT_SCALE = 0.01


class DrawnBuilder(Builder):
    """A model of int16 whose weights and scales are drawn."""

    def __init__(self, seed: int) -> None:
        super().__init__("int16")
        self.rng = np.random.default_rng(seed)

    def layer(
        self, x: int, outputs: int, kernel: tuple[int, int] = (1, 1), relu: str = "NONE", **how
    ) -> int:
        """Add a convolution, or a depthwise one; its results use their range."""
        depthwise = bool(how.get("depthwise"))
        inputs, before = self.shape(x)[3], float(self.tensors[x].quantization.scale[0])
        shape = (1, *kernel, outputs) if depthwise else (outputs, *kernel, inputs)
        weight = self.rng.integers(-127, 128, shape).astype(np.int8)
        terms = kernel[0] * kernel[1] * (1 if depthwise else inputs)
        after = before * _WEIGHT_SCALE * 127 * (terms / 2) ** 0.5 * self.rng.uniform(0.3, 1.2)
        return self.conv(
            x,
            weight,
            self.rng.integers(-(1 << 22), 1 << 22, outputs),
            weight_scale=_WEIGHT_SCALE * self.rng.uniform(0.5, 1.5, outputs),
            scale=float(after),
            activation=relu,
            **how,
        )

    def upsampled(
        self, x: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int]
    ) -> int:
        """Add a transposed convolution with padding SAME."""
        batch, height, width, inputs = self.shape(x)
        before = float(self.tensors[x].quantization.scale[0])
        weight = self.rng.integers(-127, 128, (outputs, *kernel, inputs)).astype(np.int8)
        size = batch, height * stride[0], width * stride[1], outputs
        scales = _WEIGHT_SCALE * self.rng.uniform(0.5, 1.5, outputs)
        bias = self.rng.integers(-(1 << 22), 1 << 22, outputs).astype(np.int64)
        y = self.tensor(size, before * _WEIGHT_SCALE * 127 * inputs**0.5)
        inputs_of = [
            self.constant(np.array(size, np.int32)),
            self.constant(weight, scales),
            x,
            self.constant(bias, before * scales),
        ]
        strides = {"strideH": stride[0], "strideW": stride[1], "padding": 0}
        options = {"options_type": "TransposeConvOptions", **strides}
        return self.operator("TRANSPOSE_CONV", inputs_of, [y], **options)

    def leaky(self, x: int) -> int:
        """Add LEAKY_RELU."""
        scale = float(self.tensors[x].quantization.scale[0]) * 0.9
        return self.unary("LEAKY_RELU", x, scale, options_type="LeakyReluOptions", alpha=0.3)

    def part(self, x: int, begin: tuple[int, ...], size: tuple[int, ...]) -> int:
        """Add SLICE."""
        ends = [self.constant(np.array(each, np.int32)) for each in (begin, size)]
        return self.operator("SLICE", [x, *ends], [self.like(x, size)], options_type="SliceOptions")

    def sum(self, a: int, b: int, relu: str = "NONE") -> int:
        """Add ADD."""
        scale = 1.3 * float(self.tensors[a].quantization.scale[0])
        return self.add(a, b, scale, activation=relu)


def _seanet(seed: int) -> bytes:
    """Return encoder, decoder and skip of SEANet, each step a row (Tagliasacchi 2020)."""
    m = DrawnBuilder(seed)
    x = m.input((1, 8, 40, 2), 2.0**-12)
    first = m.layer(x, 8, (7, 7), padding="VALID")
    y = m.leaky(m.pad(first, ((0, 0), (2, 0), (1, 1), (0, 0))))
    y = m.leaky(m.layer(y, 16, (4, 4), stride=(2, 2), padding="VALID"))
    y = m.leaky(m.upsampled(y, 8, (4, 4), (2, 2)))
    height, width = (min(m.shape(t)[i] for t in (y, first)) for i in (1, 2))
    parts = [m.part(t, (0, 0, 0, 0), (1, height, width, 8)) for t in (y, first)]
    return m.build(m.layer(m.concat(parts), 2, (3, 3)))


def _ds_cnn(seed: int) -> bytes:
    """Keyword spotting of MLPerf Tiny: 10x4, depthwise separable layers, average (Zhang 2017)."""
    m = DrawnBuilder(seed)
    y = m.layer(m.input((1, 25, 10, 1), 2.0**-10), 24, (10, 4), "RELU", stride=(2, 2))
    for _ in range(2):
        y = m.layer(y, 24, (3, 3), "RELU", depthwise=True)
        y = m.layer(y, 24, relu="RELU")
    y = m.reshape(m.pool("AVERAGE_POOL_2D", y, m.shape(y)[1:3]), (1, 24))
    weight = m.rng.integers(-127, 128, (12, 24)).astype(np.int8)
    return m.build(m.dense(y, weight, np.zeros(12, np.int64), weight_scale=0.02, scale=0.02))


def _mobilenet(seed: int) -> bytes:
    """Inverted residual of MobileNetV2 without and with stride, mean at its end (Sandler 2018)."""
    m = DrawnBuilder(seed)
    x = m.input((1, 12, 12, 8), 2.0**-10)
    y = m.layer(m.layer(x, 48, relu="RELU6"), 48, (3, 3), "RELU6", depthwise=True)
    y = m.sum(x, m.layer(y, 8))
    y = m.pad(m.layer(y, 48, relu="RELU6"), ((0, 0), (0, 1), (0, 1), (0, 0)))
    y = m.layer(y, 48, (3, 3), "RELU6", depthwise=True, stride=(2, 2), padding="VALID")
    y = m.layer(y, 16)
    return m.build(m.mean(y, (1, 2), float(m.tensors[y].quantization.scale[0]) / 2))


def _residual(seed: int) -> bytes:
    """Block of ResNet with a shortcut of 1x1 and stride (He 2015)."""
    m = DrawnBuilder(seed)
    x = m.input((1, 14, 14, 8), 2.0**-10)
    y = m.layer(m.layer(x, 16, (3, 3), "RELU", stride=(2, 2)), 16, (3, 3))
    y = m.sum(y, m.layer(x, 16, stride=(2, 2)), "RELU")
    return m.build(m.mean(y, (1, 2), float(m.tensors[y].quantization.scale[0]), keep_dims=True))


def _unet(seed: int) -> bytes:
    """Level of U-Net: maximum, transposed convolution, concatenation (Ronneberger 2015)."""
    m = DrawnBuilder(seed)
    y = m.layer(m.input((1, 12, 12, 3), 2.0**-10), 8, (3, 3), "RELU")
    low = m.layer(m.pool("MAX_POOL_2D", y, (2, 2), stride=(2, 2)), 16, (3, 3), "RELU")
    both = m.concat([m.upsampled(low, 8, (2, 2), (2, 2)), y])
    return m.build(m.layer(both, 8, (3, 3), "RELU"))


def _tcn(seed: int) -> bytes:
    """Causal, dilated convolutions of steps that are rows, with a residual (Bai 2018)."""
    m = DrawnBuilder(seed)
    y = m.input((1, 40, 1, 12), 2.0**-10)
    for dilation in (1, 2, 4):
        padded = m.pad(y, ((0, 0), (2 * dilation, 0), (0, 0), (0, 0)))
        z = m.layer(padded, 12, (3, 1), "RELU", dilation=(dilation, 1), padding="VALID")
        y = m.sum(y, z)
    return m.build(m.part(y, (0, 39, 0, 0), (1, 1, 1, 12)))


def _split(seed: int) -> bytes:
    """Channels that are split, filtered and shuffled, as in ShuffleNetV2 (Ma 2018)."""
    m = DrawnBuilder(seed)
    x = m.input((1, 8, 8, 16), 2.0**-10)
    halves = [m.like(x, (1, 8, 8, 8)) for _ in range(2)]
    axis = m.constant(np.array(3, np.int32))
    m.operator("SPLIT", [axis, x], halves, options_type="SplitOptions", numSplits=2)
    y = m.layer(m.layer(halves[1], 8, relu="RELU"), 8, (3, 3), depthwise=True)
    y = m.concat([m.unary("RELU", halves[0], float(m.tensors[y].quantization.scale[0])), y])
    y = m.reshape(y, (1, 8, 8, 2, 8))
    order = m.constant(np.array((0, 1, 2, 4, 3), np.int32))
    turned = m.like(y, (1, 8, 8, 8, 2))
    m.operator("TRANSPOSE", [y, order], [turned], options_type="TransposeOptions")
    return m.build(m.layer(m.reshape(turned, (1, 8, 8, 16)), 16, (1, 1), "RELU"))


BLOCKS: Mapping[str, Callable[[int], bytes]] = {
    "seanet": _seanet,
    "ds_cnn": _ds_cnn,
    "mobilenet": _mobilenet,
    "residual": _residual,
    "unet": _unet,
    "tcn": _tcn,
    "split": _split,
}
"""TFLite files by the name of their network, each drawn by a seed."""
