"""Write int8 TFLite files: just what scripts/train_cnn.py needs."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

__all__ = ["Tensor", "TfliteFile"]

_INT8_MAX = 127
_SMALLEST_WEIGHT = 1e-3  # of a channel that training has silenced: its scale must not vanish
_TYPES = {"int8": schema.TensorType.INT8, "int32": schema.TensorType.INT32}
_OPERATOR_VERSION = 3  # the first in which int8 weights may have a scale a channel


@dataclass(frozen=True)
class Tensor:
    """An int8 activation: its name, its shape with the batch, its scale and zero point."""

    name: str
    shape: tuple[int, ...]
    scale: np.float32
    zero_point: int


class TfliteFile:
    """A chain of operators. Each method adds one and returns its result.

    Parameters
    ----------
    name : str
        Name of the network.
    x : Tensor
        Its input.
    """

    def __init__(self, name: str, x: Tensor) -> None:
        self._tensors: list[Any] = []
        self._operators: list[Any] = []
        self._codes: list[int] = []
        self._buffers: list[Any] = [schema.BufferT()]
        self._name = name.encode()
        self._add_activation(x)

    def convolve(
        self, x: Tensor, y: Tensor, weight: np.ndarray, bias: np.ndarray, *, stride: int, relu: bool
    ) -> Tensor:
        """Convolve, padding SAME; weight ``[kh, kw, in, out]``, or if depthwise ``[kh, kw, c]``."""
        depthwise = weight.ndim == 3
        name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        kind: Any = schema.DepthwiseConv2DOptionsT if depthwise else schema.Conv2DOptionsT
        options = kind()
        options.strideH = options.strideW = stride
        options.dilationHFactor = options.dilationWFactor = 1
        if depthwise:
            options.depthMultiplier = 1
            laid_out, axis = weight[None], 3
        else:
            laid_out, axis = np.moveaxis(weight, 3, 0), 0
        return self._weighted(name, options, x, y, (laid_out, axis), bias, relu)

    def dense(
        self, x: Tensor, y: Tensor, weight: np.ndarray, bias: np.ndarray, *, relu: bool
    ) -> Tensor:
        """Multiply by ``weight`` ``[in, out]``, one scale for all of it."""
        options = schema.FullyConnectedOptionsT()
        return self._weighted("FULLY_CONNECTED", options, x, y, (weight.T, None), bias, relu)

    def add(self, a: Tensor, b: Tensor, y: Tensor, *, relu: bool) -> Tensor:
        """Add two activations."""
        options = schema.AddOptionsT()
        options.fusedActivationFunction = _activation(relu)
        return self._operator("ADD", options, [self._index(a.name), self._index(b.name)], y)

    def average_pool(self, x: Tensor) -> Tensor:
        """Average over the whole image."""
        options = schema.Pool2DOptionsT()
        options.padding = schema.Padding.VALID
        options.filterHeight, options.filterWidth = x.shape[1:3]
        options.strideH, options.strideW = x.shape[1:3]
        y = Tensor("pool", (1, 1, 1, x.shape[3]), x.scale, x.zero_point)
        return self._operator("AVERAGE_POOL_2D", options, [self._index(x.name)], y)

    def save(self, path: Path) -> None:
        """Write the file: the input is the first tensor, the output the last."""
        graph: Any = schema.SubGraphT()
        graph.name, graph.tensors, graph.operators = self._name, self._tensors, self._operators
        graph.inputs, graph.outputs = [0], [len(self._tensors) - 1]
        model: Any = schema.ModelT()
        model.version, model.description = 3, self._name
        model.subgraphs, model.buffers, model.operatorCodes = [graph], self._buffers, []
        for code in self._codes:
            operator_code = schema.OperatorCodeT()
            operator_code.builtinCode = operator_code.deprecatedBuiltinCode = code
            operator_code.version = _OPERATOR_VERSION
            model.operatorCodes.append(operator_code)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))

    def _weighted(self, name, options, x: Tensor, y: Tensor, weights, bias, relu: bool) -> Tensor:
        weight, axis = weights
        others = tuple(i for i in range(weight.ndim) if i != axis)
        largest = np.maximum(np.abs(weight).max(axis=others), _SMALLEST_WEIGHT)
        scale = (largest / _INT8_MAX).astype(np.float32)
        aligned = np.expand_dims(scale, others)
        operands = [
            self._index(x.name),
            self._constant(f"{y.name}/weight", np.rint(weight / aligned), np.int8, scale, axis),
            self._constant(
                f"{y.name}/bias", np.rint(bias / (x.scale * scale)), np.int32, x.scale * scale, 0
            ),
        ]
        options.fusedActivationFunction = _activation(relu)
        return self._operator(name, options, operands, y)

    def _operator(self, name: str, options, operands: list[int], y: Tensor) -> Tensor:
        code = getattr(schema.BuiltinOperator, name)
        if code not in self._codes:
            self._codes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = self._codes.index(code)
        operator.builtinOptions = options
        kind = type(options).__name__.removesuffix("T")
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        operator.inputs, operator.outputs = operands, [self._add_activation(y)]
        self._operators.append(operator)
        return y

    def _add_activation(self, tensor: Tensor) -> int:
        return self._add(tensor.name, tensor.shape, "int8", [tensor.scale], [tensor.zero_point], 0)

    def _constant(self, name: str, values: np.ndarray, dtype: type, scale, axis: int | None) -> int:
        scales = np.atleast_1d(scale)
        buffer: Any = schema.BufferT()
        data = np.ascontiguousarray(values.astype(dtype))
        buffer.data = np.frombuffer(data.tobytes(), np.uint8)
        self._buffers.append(buffer)
        at = len(self._buffers) - 1
        zeros = [0] * len(scales)
        return self._add(name, values.shape, np.dtype(dtype).name, scales, zeros, at, axis or 0)

    def _add(self, name, shape, dtype, scales, zero_points, buffer, axis=0) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name.encode(), list(shape), buffer
        tensor.type = _TYPES[dtype]
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = [float(scale) for scale in scales]
        tensor.quantization.zeroPoint = [int(zero_point) for zero_point in zero_points]
        tensor.quantization.quantizedDimension = axis
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def _index(self, name: str) -> int:
        return [tensor.name for tensor in self._tensors].index(name.encode())


def _activation(relu: bool) -> int:
    kinds = schema.ActivationFunctionType
    return kinds.RELU if relu else kinds.NONE
