"""Large known networks with random weights, scaled so that every layer says something.

Where no trained file can be had, the work of a network still can: the layers are those of the
papers, the weights are random, and every channel is scaled by what it computes of one random
image, so that activations use all of int8. Sources: MobileNetV2 (Sandler et al., 2018, table 2),
ResNet-50 v1 (He et al., 2015, table 1; stride 2 in the 1 x 1 convolution).
"""

import numpy as np

from tpulite.arch.numerics import INT8, Rounding, quantize_multiplier
from tpulite.golden.layer_windows import convolve, convolve_channels
from tpulite.golden.layers import NUMBERS, run_layer
from tpulite.golden.ops import requantize_sums
from tpulite.graph.layers import (
    Activation,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Pool,
    Requantization,
)

_SPREAD = 45.0
"""Standard deviation of the activations of a channel."""


class _Builder:
    """Adds layers one after the other, each scaled by what it computes."""

    def __init__(self, name: str, shape: tuple[int, int, int], seed: int) -> None:
        self._name, self._rng = name, np.random.default_rng(seed)
        self._layers: list[Layer] = []
        self.input = "input"
        self._values = {self.input: self._noise(shape)}
        self._shapes = {self.input: Activation(shape)}

    def conv(self, x: str, outputs: int, kernel: int, stride: int = 1, *, relu: bool) -> str:
        """Add a convolution with padding as in the papers: half of the kernel on each side."""
        channels = self._shapes[x].shape[2]
        weight = self._noise((kernel, kernel, channels, outputs))
        return self._scaled(Conv, x, weight, stride, relu)

    def depthwise(self, x: str, stride: int) -> str:
        """Add a 3 x 3 depthwise convolution."""
        weight = self._noise((3, 3, self._shapes[x].shape[2]))
        return self._scaled(Depthwise, x, weight, stride, True)

    def add(self, a: str, b: str, *, relu: bool = False) -> str:
        """Add a residual connection: half of each image."""
        halves = Requantization(
            multiplier=np.array([1 << 30]), shift=np.array([-19]), low=0 if relu else INT8[0]
        )
        layer = Elementwise(
            name=f"add{len(self._layers)}",
            inputs=(a, b),
            output=f"x{len(self._layers)}",
            op="add",
            requantization=halves,
            zero_points=(0, 0),
            multipliers=(1 << 30, 1 << 30),
            shifts=(0, 0),
        )
        return self._append(layer)

    def pool(self, x: str, op: str, window: int, stride: int, padding: int) -> str:
        """Add a pooling layer."""
        layer = Pool(
            name=f"{op}_pool{len(self._layers)}",
            inputs=(x,),
            output=f"x{len(self._layers)}",
            op=op,
            window=(window, window),
            stride=(stride, stride),
            padding=(padding, padding, padding, padding),
        )
        return self._append(layer)

    def build(self, output: str) -> LayerGraph:
        """Return the network."""
        return LayerGraph(self._name, tuple(self._layers), self._shapes, (self.input,), (output,))

    def _noise(self, shape: tuple[int, ...]) -> np.ndarray:
        values = self._rng.normal(0, _SPREAD, shape)
        return np.clip(np.rint(values), INT8[0] + 1, INT8[-1]).astype(np.int8)

    def _scaled(
        self,
        kind: type[Conv] | type[Depthwise],
        x: str,
        weight: np.ndarray,
        stride: int,
        relu: bool,
    ) -> str:
        """Add a layer of products with a multiplier and a bias for each channel."""
        pad, channels = (weight.shape[0] // 2,) * 4, weight.shape[-1]
        sums = NUMBERS.sums(
            convolve if kind.mixes_channels else convolve_channels,
            self._values[x],
            weight,
            stride=(stride, stride),
            dilation=(1, 1),
            padding=pad,
        )
        spread = sums.reshape(-1, channels).std(axis=0)
        if sums.shape[:2] == (1, 1):  # one sum a channel: spread over all weights of that size
            taps = tuple(range(weight.ndim - 1))
            size = np.linalg.norm(self._values[x].astype(np.float64))
            spread = size * np.sqrt((weight.astype(np.float64) ** 2).mean(axis=taps))
        scale = _SPREAD * (1.5 if relu else 1) / np.maximum(spread, 1)
        pairs = np.array([quantize_multiplier(float(value)) for value in scale], np.int64)
        requantization = Requantization(
            multiplier=pairs[:, 0],
            shift=pairs[:, 1],
            bias=np.rint(self._rng.normal(0, 0.3, channels) * spread).astype(np.int32),
            rounding=Rounding.TFLITE,
            low=0 if relu else INT8[0],
        )
        layer = kind(
            name=f"{kind.__name__.lower()}{len(self._layers)}",
            inputs=(x,),
            output=f"x{len(self._layers)}",
            weight=weight,
            requantization=requantization,
            stride=(stride, stride),
            padding=pad,
        )
        return self._append(layer, requantize_sums(sums, requantization))

    def _append(self, layer: Layer, values: np.ndarray | None = None) -> str:
        """Add a layer; ``values`` are what it computes, if that is known."""
        if values is None:
            values = run_layer(layer, *(self._values[name] for name in layer.inputs))
        self._layers.append(layer)
        self._values[layer.output] = values
        height, width, channels = values.shape
        self._shapes[layer.output] = Activation((height, width, channels))
        return layer.output


def mobilenet_v2(size: int = 224, seed: int = 1) -> LayerGraph:
    """Return MobileNetV2 1.0 up to its 1000 logits."""
    net = _Builder(f"mobilenet_v2_1.0_{size}", (size, size, 3), seed)
    x, channels = net.conv(net.input, 32, 3, 2, relu=True), 32
    for expansion, outputs, repeats, first_stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for i in range(repeats):
            stride = first_stride if i == 0 else 1
            y = net.conv(x, expansion * channels, 1, relu=True) if expansion > 1 else x
            y = net.conv(net.depthwise(y, stride), outputs, 1, relu=False)
            x = net.add(x, y) if stride == 1 and channels == outputs else y
            channels = outputs
    x = net.conv(x, 1280, 1, relu=True)
    x = net.pool(x, "average", size // 32, 1, 0)
    return net.build(net.conv(x, 1000, 1, relu=False))


def resnet50(size: int = 224, seed: int = 1) -> LayerGraph:
    """Return ResNet-50 up to its 1000 logits."""
    net = _Builder(f"resnet50_{size}", (size, size, 3), seed)
    x = net.pool(net.conv(net.input, 64, 7, 2, relu=True), "max", 3, 2, 1)
    for stage, (width, repeats) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for i in range(repeats):
            stride = 2 if i == 0 and stage > 0 else 1
            y = net.conv(x, width, 1, stride, relu=True)
            y = net.conv(net.conv(y, width, 3, relu=True), 4 * width, 1, relu=False)
            if i == 0:
                x = net.conv(x, 4 * width, 1, stride, relu=False)
            x = net.add(x, y, relu=True)
    x = net.pool(x, "average", size // 32, 1, 0)
    return net.build(net.conv(x, 1000, 1, relu=False))


ARCHITECTURES = {"mobilenet_v2_1.0_224": mobilenet_v2, "resnet50_224": resnet50}
"""Networks by the name under which benchmarks know them."""
