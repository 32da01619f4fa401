"""Networks as converters write them: uint8 images, QUANTIZE, PADs of their own."""

from collections.abc import Iterator

import numpy as np

from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.graph.layers import Depthwise, Elementwise, Filter, LayerGraph
from tpulite.models.architectures import mobilenet_v2

_PIXELS = 1 / 127.5
_RELU6 = 6 / 255
_LINEAR = 0.05
_RANGES = {True: (_RELU6, -128), False: (_LINEAR, 0)}
"""Scale and zero point of outputs, by whether they are from 0 up."""

_SPREAD = 2.0
"""Of outputs, so that those of RELU6 use all of their range."""


def mobilenet_v2_graph(name: str) -> Graph:
    """Return MobileNetV2 of random weights, quantized as converters do.

    The network is :func:`tpulite.models.architectures.mobilenet_v2`; its images are uint8, and
    where a stride is 2, a PAD puts a row below and a column on the right, with the zero point.
    """
    writer = _Writer(mobilenet_v2())
    nodes = tuple(writer.nodes())
    return Graph(name, nodes, writer.tensors, ("image",), ("logits",), "tflite")


class _Writer:
    """Turns integer layers into operators and their tensors."""

    def __init__(self, layers: LayerGraph) -> None:
        self._layers = layers
        self.tensors: dict[str, Tensor] = {}

    def nodes(self) -> Iterator[Node]:
        """Yield the operators; tensors come to be on the way."""
        (x,) = self._layers.inputs
        self._tensor("image", self._shape(x), _PIXELS, 127, "uint8")
        self._tensor(x, self._shape(x), _PIXELS, -1)
        yield Node("quantize", "requantize", ("image",), (x,), {}, "QUANTIZE")
        for layer in self._layers.layers:
            if isinstance(layer, Filter):
                yield from self._product(layer)
            elif isinstance(layer, Elementwise):
                assert layer.requantization is not None
                yield self._add(layer, relu=layer.requantization.low == 0)
            else:
                self._tensor(layer.output, self._shape(layer.output), _RELU6, -128)
                attributes = {"axes": (1, 2), "keep_dims": True}
                yield Node(layer.name, "mean", layer.inputs, (layer.output,), attributes, "MEAN")
        (y,) = self._layers.outputs
        shape = (1, self._shape(y)[-1])
        self._tensor("logits", shape, _LINEAR, 0)
        yield Node("reshape", "reshape", (y,), ("logits",), {"shape": shape}, "RESHAPE")

    def _add(self, layer: Elementwise, *, relu: bool) -> Node:
        self._tensor(layer.output, self._shape(layer.output), *_RANGES[relu])
        attributes = {"activation": "relu6" if relu else "none"}
        return Node(layer.name, "add", layer.inputs, (layer.output,), attributes, "ADD")

    def _product(self, layer: Filter) -> Iterator[Node]:
        requantization = layer.requantization
        assert requantization is not None
        relu = bool(np.all(requantization.low == 0))
        source, padding = layer.inputs[0], layer.padding
        if layer.stride == (2, 2):
            if any(pads := _same(layer.weight.shape[0])):
                padded = f"{source}_padded"
                yield self._pad(source, padded, pads)
                source = padded
            padding = (0, 0, 0, 0)
        y = self._tensor(layer.output, self._shape(layer.output), *_RANGES[relu])
        x = self.tensors[source].quantization
        assert x is not None and y.quantization is not None
        # The factor that architectures.py has found for a channel is that of input and weights.
        factors = requantization.multiplier * 2.0 ** (requantization.shift - 31)
        scales = _SPREAD * factors * y.quantization.scale[0] / x.scale[0]
        depthwise = isinstance(layer, Depthwise)
        weight = layer.weight if depthwise else np.moveaxis(layer.weight, 3, 0)
        axis = 2 if depthwise else 0
        self._constant(f"{layer.name}_weight", np.ascontiguousarray(weight), scales, axis)
        self._constant(f"{layer.name}_bias", requantization.bias, scales * x.scale[0], 0)
        attributes = {
            "stride": layer.stride,
            "dilation": layer.dilation,
            "padding": padding,
            "activation": "relu6" if relu else "none",
        }
        inputs = (source, f"{layer.name}_weight", f"{layer.name}_bias")
        op, code = ("depthwise", "DEPTHWISE_CONV_2D") if depthwise else ("conv", "CONV_2D")
        if depthwise:
            attributes["multiplier"] = 1
        yield Node(layer.name, op, inputs, (layer.output,), attributes, code)

    def _pad(self, x: str, padded: str, pads: tuple[int, int, int, int]) -> Node:
        quantization = self.tensors[x].quantization
        assert quantization is not None
        batch, height, width, channels = self.tensors[x].shape
        top, left, bottom, right = pads
        shape = (batch, top + height + bottom, left + width + right, channels)
        self.tensors[padded] = Tensor(padded, shape, "int8", quantization)
        attributes = {"padding": pads, "value": int(quantization.zero_point[0])}
        return Node(padded, "pad", (x,), (padded,), attributes, "PAD")

    def _shape(self, name: str) -> tuple[int, ...]:
        return (1, *self._layers.activations[name].shape)

    def _tensor(
        self, name: str, shape: tuple[int, ...], scale: float, zero_point: int, dtype: str = "int8"
    ) -> Tensor:
        quantization = Quantization(np.array([scale], np.float32), np.array([zero_point]))
        self.tensors[name] = Tensor(name, shape, dtype, quantization)
        return self.tensors[name]

    def _constant(self, name: str, data: np.ndarray, scales: np.ndarray, axis: int) -> None:
        scale = scales.astype(np.float32)
        quantization = Quantization(scale, np.zeros(len(scale), np.int64), axis)
        self.tensors[name] = Tensor(name, data.shape, str(data.dtype), quantization, data)


def _same(kernel: int) -> tuple[int, int, int, int]:
    """Return SAME padding of even extents for stride 2: (top, left, bottom, right)."""
    total = max(0, kernel - 2)
    before = total // 2
    return before, before, total - before, total - before
