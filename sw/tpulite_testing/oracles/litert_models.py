"""Models of one int8 operator, run by a chosen kernel set of LiteRT."""

import warnings

import numpy as np
from numpy.typing import NDArray

from tpulite_testing.files.tflite_builder import Builder

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
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
    model = Builder()
    y = model.dense(
        model.input(x.shape, scales[0], zero_points[0]),
        np.ascontiguousarray(w.T),
        bias,
        weight_scale=scales[1],
        scale=scales[2],
        zero_point=zero_points[1],
    )
    return _run(kernels, model.build(y), x)


def run_conv(kernels: str, x, w, bias, *, scales, zero_points) -> NDArray[np.int8]:
    """Run CONV_2D with a 1x1 kernel as a dense layer; one scale of the weights a channel."""
    (m, k), n = x.shape, w.shape[1]
    model = Builder()
    y = model.conv(
        model.input((1, m, 1, k), scales[0], zero_points[0]),
        np.ascontiguousarray(w.T).reshape(n, 1, 1, k),
        bias,
        weight_scale=scales[1],
        scale=scales[2],
        zero_point=zero_points[1],
        padding="VALID",
    )
    return _run(kernels, model.build(y), x.reshape(1, m, 1, k)).reshape(m, n)


def _run(kernels: str, model: bytes, x: np.ndarray) -> NDArray[np.int8]:
    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=KERNELS[kernels], num_threads=1
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
