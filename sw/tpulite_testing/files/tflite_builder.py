"""Small TFLite models for tests, built with LiteRT's object API.

>>> b = Builder()
>>> x = b.input((1, 8, 8, 3), scale=0.5, zero_point=-3)
>>> w = np.zeros((4, 3, 3, 3), np.int8)
>>> y = b.conv(x, w, [0] * 4, weight_scale=0.1, scale=0.7, zero_point=5, padding="SAME")
>>> b.shape(y)
(1, 8, 8, 4)
>>> b.build(y)[4:8]
b'TFL3'
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tpulite.frontend.tflite.builder import ModelBuilder, schema

__all__ = ["Builder", "schema"]

Pair = tuple[int, int]


class Builder(ModelBuilder):
    """A model under construction, with a method for each operator."""

    def replace_data(self, tensor: Any, data: np.ndarray) -> None:
        """Give a constant other bytes, for types that numpy lacks."""
        self._buffers[tensor.buffer] = data.tobytes()

    def unary(
        self,
        code: str,
        x: int,
        scale: float | None = None,
        zero_point: int = 0,
        *,
        dtype: str | None = None,
        **options: Any,
    ) -> int:
        """Add an operator from one tensor to one of the same shape: RELU, LOGISTIC, QUANTIZE …."""
        y = self.tensor(self.shape(x), scale, zero_point, dtype=dtype)
        return self.operator(code, [x], [y], **options)

    def conv(  # noqa: PLR0913 - fields of an operator
        self,
        x: int,
        weight: np.ndarray,
        bias: ArrayLike | None = None,
        *,
        weight_scale: ArrayLike | None = None,
        weight_zero_point: ArrayLike = 0,
        scale: float | None = None,
        zero_point: int = 0,
        stride: Pair = (1, 1),
        dilation: Pair = (1, 1),
        padding: str = "SAME",
        activation: str = "NONE",
        depthwise: bool = False,
    ) -> int:
        """Add CONV_2D, weight [O, kh, kw, I], or DEPTHWISE_CONV_2D, weight [1, kh, kw, O]."""
        axis = 3 if depthwise else 0
        channels = weight.shape[axis]
        w = self.constant(weight, weight_scale, weight_zero_point, axis=axis)
        height, width = (
            self._positions(
                self.shape(x)[1 + i], weight.shape[1 + i], stride[i], dilation[i], padding
            )
            for i in (0, 1)
        )
        inputs = [x, w, *self._bias(x, w, bias)]
        y = self.tensor((self.shape(x)[0], height, width, channels), scale, zero_point)
        options: dict[str, Any] = {
            "options_type": "Conv2DOptions",
            "padding": getattr(schema.Padding, padding),
            "strideH": stride[0],
            "strideW": stride[1],
            "dilationHFactor": dilation[0],
            "dilationWFactor": dilation[1],
            "fusedActivationFunction": _activation(activation),
        }
        if depthwise:
            options["options_type"] = "DepthwiseConv2DOptions"
            options["depthMultiplier"] = channels // self.shape(x)[3]
        code = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return self.operator(code, inputs, [y], **options)

    def depthwise(self, x: int, weight: np.ndarray, *args: Any, **options: Any) -> int:
        """Add DEPTHWISE_CONV_2D, weight [1, kh, kw, C * multiplier]; the rest as for conv."""
        return self.conv(x, weight, *args, depthwise=True, **options)

    def dense(  # noqa: PLR0913 - fields of an operator
        self,
        x: int,
        weight: np.ndarray,
        bias: ArrayLike | None = None,
        *,
        weight_scale: ArrayLike | None = None,
        weight_zero_point: ArrayLike = 0,
        scale: float | None = None,
        zero_point: int = 0,
        activation: str = "NONE",
    ) -> int:
        """Add FULLY_CONNECTED, weight [O, K]."""
        w = self.constant(weight, weight_scale, weight_zero_point)
        inputs = [x, w, *self._bias(x, w, bias)]
        batch = math.prod(self.shape(x)) // weight.shape[1]
        y = self.tensor((batch, weight.shape[0]), scale, zero_point)
        return self.operator(
            "FULLY_CONNECTED",
            inputs,
            [y],
            options_type="FullyConnectedOptions",
            fusedActivationFunction=_activation(activation),
        )

    def elementwise(
        self,
        code: str,
        a: int,
        b: int,
        scale: float | None = None,
        zero_point: int = 0,
        *,
        activation: str = "NONE",
    ) -> int:
        """Add ADD, SUB or MUL, with broadcasting."""
        shape = np.broadcast_shapes(self.shape(a), self.shape(b))
        y = self.tensor(shape, scale, zero_point)
        name = f"{code.capitalize()}Options"
        activation_code = _activation(activation)
        return self.operator(
            code, [a, b], [y], options_type=name, fusedActivationFunction=activation_code
        )

    def add(self, a: int, b: int, *args: Any, **options: Any) -> int:
        """Add ADD."""
        return self.elementwise("ADD", a, b, *args, **options)

    def pool(
        self,
        code: str,
        x: int,
        window: Pair,
        *,
        stride: Pair = (1, 1),
        padding: str = "VALID",
        activation: str = "NONE",
    ) -> int:
        """Add MAX_POOL_2D or AVERAGE_POOL_2D, whose output is quantized as its input."""
        batch, height, width, channels = self.shape(x)
        height = self._positions(height, window[0], stride[0], 1, padding)
        width = self._positions(width, window[1], stride[1], 1, padding)
        return self.operator(
            code,
            [x],
            [self.like(x, (batch, height, width, channels))],
            options_type="Pool2DOptions",
            filterHeight=window[0],
            filterWidth=window[1],
            strideH=stride[0],
            strideW=stride[1],
            padding=getattr(schema.Padding, padding),
            fusedActivationFunction=_activation(activation),
        )

    def mean(
        self,
        x: int,
        axes: Sequence[int] = (1, 2),
        scale: float | None = None,
        zero_point: int = 0,
        *,
        keep_dims: bool = False,
    ) -> int:
        """Add MEAN."""
        reduced = {axis % len(self.shape(x)) for axis in axes}
        extents = [1 if i in reduced else extent for i, extent in enumerate(self.shape(x))]
        if not keep_dims:
            extents = [extent for i, extent in enumerate(extents) if i not in reduced]
        y = self.tensor(extents, scale, zero_point)
        a = self.constant(np.array(axes, np.int32))
        return self.operator("MEAN", [x, a], [y], options_type="ReducerOptions", keepDims=keep_dims)

    def pad(self, x: int, paddings: Sequence[Pair], value: int | None = None) -> int:
        """Add PAD, or PADV2 with a value; ``paddings`` (before, after) for each axis."""
        shape = [extent + sum(pair) for extent, pair in zip(self.shape(x), paddings, strict=True)]
        p = self.constant(np.array(paddings, np.int32))
        y = self.like(x, shape)
        if value is None:
            return self.operator("PAD", [x, p], [y], options_type="PadOptions")
        v = self.like(x, (1,), np.array([value], self.dtype))
        return self.operator("PADV2", [x, p, v], [y], options_type="PadV2Options")

    def reshape(self, x: int, shape: Sequence[int]) -> int:
        """Add RESHAPE to ``shape``, which may hold one -1."""
        rest = -math.prod(shape)
        extents = [math.prod(self.shape(x)) // rest if n == -1 else n for n in shape]
        s = self.constant(np.array(shape, np.int32))
        return self.operator(
            "RESHAPE", [x, s], [self.like(x, extents)], options_type="ReshapeOptions"
        )

    def concat(self, xs: Sequence[int], axis: int = 3) -> int:
        """Add CONCATENATION of tensors that are quantized alike."""
        shape = list(self.shape(xs[0]))
        shape[axis] = sum(self.shape(x)[axis] for x in xs)
        return self.operator(
            "CONCATENATION",
            xs,
            [self.like(xs[0], shape)],
            options_type="ConcatenationOptions",
            axis=axis,
        )

    def _bias(self, x: int, w: int, bias: ArrayLike | None) -> list[int]:
        if bias is None:
            return []
        if self.dtype == "float32":
            return [self.constant(np.asarray(bias, np.float32))]
        x_scale = np.float32(self.tensors[x].quantization.scale[0])
        scales = x_scale * np.asarray(self.tensors[w].quantization.scale, np.float32)
        return [self.constant(np.asarray(bias, self.bias_dtype), scales)]

    @staticmethod
    def _positions(extent: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
        if padding == "SAME":
            return -(-extent // stride)
        return (extent - dilation * (kernel - 1) - 1) // stride + 1


def _activation(name: str) -> int:
    return getattr(schema.ActivationFunctionType, name)
