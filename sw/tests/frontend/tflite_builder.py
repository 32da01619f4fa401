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
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

__all__ = ["Builder", "schema"]

Pair = tuple[int, int]

# Versions of operators that LiteRT has; 2 brought int8 to most.
_VERSIONS = {
    schema.BuiltinOperator.DEPTHWISE_CONV_2D: 5,
    schema.BuiltinOperator.RESHAPE: 1,
    schema.BuiltinOperator.ELU: 1,
    schema.BuiltinOperator.HARD_SWISH: 1,
    schema.BuiltinOperator.PACK: 1,
}


class Builder:
    """A model under construction; tensors are numbers, operators are added in order.

    Parameters
    ----------
    dtype : str
        Type of activations and of weights: ``int8``, ``uint8`` or ``float32``; scales and zero
        points are left out of float models.
    """

    def __init__(self, dtype: str = "int8") -> None:
        self.dtype = dtype
        self.inputs: list[int] = []
        self.tensors: list[Any] = []
        self._buffers: list[bytes | None] = [None]
        self._codes: list[tuple[int, str]] = []
        self._operators: list[Any] = []

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Return the extents of a tensor."""
        return tuple(self.tensors[tensor].shape)

    def tensor(
        self,
        shape: Sequence[int],
        scale: ArrayLike | None = None,
        zero_point: ArrayLike = 0,
        *,
        dtype: str | None = None,
        axis: int = 0,
        data: np.ndarray | None = None,
    ) -> int:
        """Add a tensor; with ``data`` a constant. Several scales belong to ``axis``."""
        dtype = dtype or self.dtype
        tensor = schema.TensorT()
        tensor.name = f"t{len(self.tensors)}".encode()
        tensor.shape = [int(extent) for extent in shape]
        tensor.type = getattr(schema.TensorType, dtype.upper())
        tensor.buffer = 0
        if scale is not None and dtype != "float32":
            quantization = schema.QuantizationParametersT()
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            zero_points = np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape)
            quantization.scale, quantization.zeroPoint = scales.tolist(), zero_points.tolist()
            quantization.quantizedDimension = axis
            tensor.quantization = quantization
        if data is not None:
            tensor.buffer = len(self._buffers)
            data = np.ascontiguousarray(data)
            self._buffers.append(data.astype(data.dtype.newbyteorder("<")).tobytes())
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], scale: float | None = None, zero_point: int = 0) -> int:
        """Add an input of the model."""
        self.inputs.append(self.tensor(shape, scale, zero_point))
        return self.inputs[-1]

    def constant(
        self,
        data: np.ndarray,
        scale: ArrayLike | None = None,
        zero_point: ArrayLike = 0,
        *,
        axis: int = 0,
    ) -> int:
        """Add a constant of the type of ``data``."""
        return self.tensor(
            data.shape, scale, zero_point, dtype=data.dtype.name, axis=axis, data=data
        )

    def operator(
        self, code: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any
    ) -> int:
        """Add any operator, with its options as the schema names them; return its first output.

        The class of the options is told by the keyword ``options_type``; a custom operator is
        ``CUSTOM:name``.
        """
        builtin, _, custom = code.partition(":")
        key = (getattr(schema.BuiltinOperator, builtin), custom)
        if key not in self._codes:
            self._codes.append(key)
        operator = schema.OperatorT()
        operator.opcodeIndex = self._codes.index(key)
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        if name := options.pop("options_type", None):
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            operator.builtinOptions = getattr(schema, f"{name}T")()
            for option, value in options.items():
                assert hasattr(operator.builtinOptions, option), option
                setattr(operator.builtinOptions, option, value)
        self._operators.append(operator)
        return outputs[0]

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

    def conv(
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

    def dense(
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
            [self._like(x, (batch, height, width, channels))],
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
        y = self._like(x, shape)
        if value is None:
            return self.operator("PAD", [x, p], [y], options_type="PadOptions")
        v = self._like(x, (1,), np.array([value], self.dtype))
        return self.operator("PADV2", [x, p, v], [y], options_type="PadV2Options")

    def reshape(self, x: int, shape: Sequence[int]) -> int:
        """Add RESHAPE to ``shape``, which may hold one -1."""
        rest = -math.prod(shape)
        extents = [math.prod(self.shape(x)) // rest if n == -1 else n for n in shape]
        s = self.constant(np.array(shape, np.int32))
        return self.operator(
            "RESHAPE", [x, s], [self._like(x, extents)], options_type="ReshapeOptions"
        )

    def concat(self, xs: Sequence[int], axis: int = 3) -> int:
        """Add CONCATENATION of tensors that are quantized alike."""
        shape = list(self.shape(xs[0]))
        shape[axis] = sum(self.shape(x)[axis] for x in xs)
        return self.operator(
            "CONCATENATION",
            xs,
            [self._like(xs[0], shape)],
            options_type="ConcatenationOptions",
            axis=axis,
        )

    def build(self, *outputs: int) -> bytes:
        """Return the file, whose outputs are the given tensors."""
        graph = schema.SubGraphT()
        graph.tensors, graph.operators = self.tensors, self._operators
        graph.inputs, graph.outputs = self.inputs, list(outputs)
        model = schema.ModelT()
        model.version = 3
        model.subgraphs, model.operatorCodes, model.buffers = [graph], [], []
        for builtin, custom in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode = builtin, min(builtin, 127)
            code.version = _VERSIONS.get(builtin, 2)
            code.customCode = custom or None
            model.operatorCodes.append(code)
        for data in self._buffers:
            buffer = schema.BufferT()
            buffer.data = None if data is None else np.frombuffer(data, np.uint8)
            model.buffers.append(buffer)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _bias(self, x: int, w: int, bias: ArrayLike | None) -> list[int]:
        if bias is None:
            return []
        if self.dtype == "float32":
            return [self.constant(np.asarray(bias, np.float32))]
        x_scale = np.float32(self.tensors[x].quantization.scale[0])
        scales = x_scale * np.asarray(self.tensors[w].quantization.scale, np.float32)
        return [self.constant(np.asarray(bias, np.int32), scales)]

    def _like(self, x: int, shape: Sequence[int], data: np.ndarray | None = None) -> int:
        """Add a tensor of the type and quantization of another."""
        y = self.tensor(shape, data=data)
        self.tensors[y].type = self.tensors[x].type
        self.tensors[y].quantization = self.tensors[x].quantization
        return y

    @staticmethod
    def _positions(extent: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
        if padding == "SAME":
            return -(-extent // stride)
        return (extent - dilation * (kernel - 1) - 1) // stride + 1


def _activation(name: str) -> int:
    return getattr(schema.ActivationFunctionType, name)
