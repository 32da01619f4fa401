"""Models of one int8 operator, run by a chosen kernel set of LiteRT."""

import warnings

import numpy as np
from numpy.typing import NDArray

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

__all__ = ["KERNELS", "run_conv", "run_fully_connected"]

KERNELS = {
    "reference": OpResolverType.BUILTIN_REF,
    "optimized": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "xnnpack": OpResolverType.AUTO,
}


def run_fully_connected(kernels: str, x, w, bias, *, scales, zero_points) -> NDArray[np.int8]:
    """Run FULLY_CONNECTED: ``x`` [M, K] int8, ``w`` [K, N] int8, ``bias`` [N] int32.

    ``scales`` are those of input, weights (one) and output, ``zero_points`` of input and output.
    """
    options = schema.FullyConnectedOptionsT()
    return _run(
        kernels,
        schema.BuiltinOperator.FULLY_CONNECTED,
        (schema.BuiltinOptions.FullyConnectedOptions, options),
        x,
        (np.ascontiguousarray(w.T), [0]),
        bias,
        (len(x), len(bias)),
        scales,
        zero_points,
    )


def run_conv(kernels: str, x, w, bias, *, scales, zero_points) -> NDArray[np.int8]:
    """Run CONV_2D with a 1x1 kernel as a dense layer; one scale of the weights a channel."""
    options = schema.Conv2DOptionsT()
    options.padding = schema.Padding.VALID
    options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
    (m, k), n = x.shape, w.shape[1]
    result = _run(
        kernels,
        schema.BuiltinOperator.CONV_2D,
        (schema.BuiltinOptions.Conv2DOptions, options),
        x.reshape(1, m, 1, k),
        (np.ascontiguousarray(w.T).reshape(n, 1, 1, k), [0] * n),
        bias,
        (1, m, 1, n),
        scales,
        zero_points,
    )
    return result.reshape(m, n)


def _run(kernels, code, options, x, weights, bias, shape, scales, zero_points):
    w, weight_zero_points = weights
    bias_scales = np.float32(scales[0]) * np.asarray(scales[1], dtype=np.float32)
    int8, int32 = schema.TensorType.INT8, schema.TensorType.INT32
    tensors = [
        _tensor("x", x.shape, int8, scales[0], zero_points[0]),
        _tensor("w", w.shape, int8, scales[1], weight_zero_points, buffer=1),
        _tensor("b", bias.shape, int32, bias_scales, weight_zero_points, buffer=2),
        _tensor("y", shape, int8, scales[2], zero_points[1]),
    ]
    operator = schema.OperatorT()
    operator.opcodeIndex = 0
    operator.inputs, operator.outputs = [0, 1, 2], [3]
    operator.builtinOptionsType, operator.builtinOptions = options
    graph = schema.SubGraphT()
    graph.tensors, graph.operators = tensors, [operator]
    graph.inputs, graph.outputs = [0], [3]
    operator_code = schema.OperatorCodeT()
    operator_code.builtinCode = operator_code.deprecatedBuiltinCode = code
    operator_code.version = 3
    model = schema.ModelT()
    model.version = 3
    model.operatorCodes, model.subgraphs = [operator_code], [graph]
    model.buffers = [_buffer(None), _buffer(w), _buffer(bias.astype("<i4"))]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")

    interpreter = Interpreter(
        model_content=bytes(builder.Output()),
        experimental_op_resolver_type=KERNELS[kernels],
        num_threads=1,
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def _tensor(name, shape, kind, scale, zero_point, buffer=0):
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(shape), kind, buffer
    tensor.quantization = schema.QuantizationParametersT()
    tensor.quantization.scale = np.atleast_1d(scale).astype(np.float32).tolist()
    tensor.quantization.zeroPoint = np.atleast_1d(zero_point).tolist()
    return tensor


def _buffer(data):
    buffer = schema.BufferT()
    buffer.data = None if data is None else np.frombuffer(data.tobytes(), dtype=np.uint8)
    return buffer
