"""Convolutions, bound to shapes."""

from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import CONV, Drain
from tpulite.arch.memory import Window
from tpulite.compiler.plan.closed_forms import Number, ceil_div
from tpulite.dynamic.conv_commands import conv_commands
from tpulite.dynamic.conv_plan import ConvFacts, Extents, conv_strategies
from tpulite.dynamic.conv_weights import pack_conv
from tpulite.dynamic.operator import Bound, tensor_spec
from tpulite.dynamic.selector import Strategy
from tpulite.dynamic.shapes import Shape, ShapeRange
from tpulite.dynamic.transfer import DramTensor
from tpulite.dynamic.windows import Axis, axes_of
from tpulite.graph.layers import Conv, LayerGraph
from tpulite.program import Strings

__all__ = ["Convolution"]

_KERNEL, _STRIDE, _DILATION, _PAD = (
    next(field.range[-1] for field in CONV.fields if field.name == name)
    for name in ("kernel_columns", "stride_x", "dilation_x", "pad_left")
)


@dataclass(frozen=True)
class _Dense:
    """Dense mode: the rows of the image are strings of bytes.

    Parameters
    ----------
    channels, step : int
        Bytes of a pixel, and from an output column to the next.
    length : int
        Bytes that a window covers in a string.
    """

    channels: int
    step: int
    length: int


class Convolution:
    """Convolution; follows :class:`tpulite.dynamic.operator.Operator`.

    Parameters
    ----------
    layers : LayerGraph
        A network of this one layer.
    shapes : ShapeRange
        Shapes that may be bound.
    config : Config
        The machine.

    Raises
    ------
    ValueError
        If the machine cannot express the layer, or lacks its rounding.
    """

    def __init__(self, layers: LayerGraph, shapes: ShapeRange, config: Config) -> None:
        (layer,) = layers.layers
        assert isinstance(layer, Conv)
        self._layers, self._layer, self._config = layers, layer, config
        kh, kw, channels, _ = layer.weight.shape
        for what, value, limit in (
            ("padding", max(layer.padding), _PAD),
            ("stride", max(layer.stride), _STRIDE),
            ("dilation", max(layer.dilation), _DILATION),
        ):
            if value > limit:
                raise ValueError(f"{layer.title}: {what} must be at most {limit}, not {value}")
        self.axes = self._y, self._x = axes_of(
            (kh, kw), layer.stride, layer.dilation, layer.padding
        )
        self._dense = self._strings(shapes)
        weight, x = layer.weight, self._x
        if self._dense is not None:
            flat = weight.reshape(kh, kw * channels, -1)
            pad = ((0, 0), (0, -kw * channels % config.array_size), (0, 0))
            flat = np.pad(flat, pad, constant_values=layer.weight_zero_point)
            weight = flat.reshape(kh, -1, config.array_size, flat.shape[2])
            x = Axis(weight.shape[1], 1, 1, 0, 0)
        self._weights = pack_conv(layer, weight, config)
        # Where a vector needs one vector alone, all pixels of a batch are rows of one column.
        self._flat = (kh, kw, *layer.stride, *layer.padding) == (1, 1, 1, 1, 0, 0, 0, 0)
        self._facts = ConvFacts(
            config,
            self._y,
            x,
            0 if self._dense is None else self._dense.step,
            ceil_div(weight.shape[2], config.array_size),
            self._weights,
        )
        self._constant_fields = {
            "stride_y": layer.stride[0],
            "stride_x": x.stride,
            "dilation_y": layer.dilation[0],
            "dilation_x": x.dilation,
            "byte_step": self._facts.byte_step,
            "pad": layer.input_zero_point,
            "weight_zero_point": layer.weight_zero_point,
            "record_form": self._weights.form or 0,
        }
        self._drain = Drain.RAW if self._weights.form is None else Drain.REQUANTIZE

    def _strings(self, shapes: ShapeRange) -> _Dense | None:
        """Return how inputs become strings, if that saves k-tiles and every shape permits it."""
        layer, size = self._layer, self._config.array_size
        kh, kw, channels, _ = layer.weight.shape
        dense = _Dense(channels, layer.stride[1] * channels, kw * channels)
        chunks = ceil_div(dense.length, size)
        saves = chunks < kw * ceil_div(channels, size)
        fits = dense.step <= size and max(kh, chunks) <= _KERNEL and max(layer.dilation) == 1
        columns = self._x.outputs(shapes.width[1])
        return dense if saves and fits and columns <= self._config.acc_rows else None

    def depth(self) -> int:
        """Return the multiplications of an output element."""
        return self._layer.weight[..., 0].size

    def _vectors(self, width: Number) -> Number:
        """Return the vectors of an image row."""
        if self._dense is None:
            return width
        size = self._config.array_size
        used = (self._x.outputs(width) - 1) * self._dense.step + self._dense.length
        unit = BEAT_BYTES // gcd(BEAT_BYTES, size)
        return ceil_div(ceil_div(used, size), unit) * unit

    def _extents(self, batch: Number, height: Number, width: Number) -> Extents:
        if self._flat and self._dense is None:
            pixels = batch * height * width
            return Extents(1, pixels, 1, pixels, 1)
        outputs = self._y.outputs(height), self._x.outputs(width)
        return Extents(batch, height, self._vectors(width), *outputs)

    def strategies(
        self, batch: Number, height: Number, width: Number, channels: Number
    ) -> tuple[Strategy, ...]:
        """Return all strategies; see :func:`conv_strategies`."""
        return conv_strategies(self._facts, self._extents(batch, height, width))

    def bind(self, shape: Shape, strategy: Strategy) -> Bound:
        """Fill in a shape and its strategy."""
        batch, height, width = shape.batch, shape.height, shape.width
        (source,), (target,) = self._layers.inputs, self._layers.outputs
        spec = tensor_spec(
            self._layers, source, Window.INPUT, 0, (batch, height, width), shape.channels
        )
        if self._dense is not None:
            fill = self._layer.input_zero_point + (128 if spec.dtype == "uint8" else 0)
            strings = Strings(self._vectors(width), self._x.before, fill)
            spec = replace(spec, m=batch * height, strings=strings)
        outputs = batch, self._y.outputs(height), self._x.outputs(width)
        features = self._layer.weight.shape[3]
        out_spec = tensor_spec(self._layers, target, Window.OUTPUT, 0, outputs, features)
        program, positions = conv_commands(
            self._facts,
            self._extents(batch, height, width),
            strategy,
            (DramTensor.of(spec, self._config), DramTensor.of(out_spec, self._config)),
            self._constant_fields,
            self._drain,
        )
        return Bound(program, positions, self._weights.data, (spec,), (out_spec,))
