"""Models of one quantized ONNX operator, run by ONNX Runtime."""

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tpulite_testing.oracles.onnx_session import open_onnx

__all__ = ["run_matmul_integer", "run_qlinear_conv", "run_qlinear_matmul"]

_QUANTIZED = {np.dtype(np.int8): TensorProto.INT8, np.dtype(np.uint8): TensorProto.UINT8}


def run_qlinear_matmul(x, w, *, scales, zero_points) -> NDArray:
    """Run QLinearMatMul: ``x`` [M, K] times ``w`` [K, N]; the output has the type of ``x``.

    ``scales`` are those of input, weights (one) and output, ``zero_points`` likewise.
    """
    constants = _constants(x, w, scales, zero_points)
    return _run("QLinearMatMul", x, constants, (len(x), w.shape[1]), _QUANTIZED[x.dtype])


def run_qlinear_conv(x, w, bias, *, scales, zero_points) -> NDArray:
    """Run QLinearConv with a 1x1 kernel as a dense layer; one scale of the weights a channel."""
    (m, k), n = x.shape, w.shape[1]
    kernel = np.ascontiguousarray(w.T).reshape(n, k, 1, 1)
    constants = _constants(x, kernel, scales, zero_points) | {"bias": bias.astype(np.int32)}
    image = np.ascontiguousarray(x.T).reshape(1, k, m, 1)
    result = _run("QLinearConv", image, constants, (1, n, m, 1), _QUANTIZED[x.dtype])
    return result.reshape(n, m).T


def run_matmul_integer(x, w, *, zero_points) -> NDArray[np.int32]:
    """Run MatMulInteger; ``zero_points`` are those of input and weights."""
    constants = {
        "w": w,
        "x_zero": np.array(zero_points[0], dtype=x.dtype),
        "w_zero": np.array(zero_points[1], dtype=w.dtype),
    }
    return _run("MatMulInteger", x, constants, (len(x), w.shape[1]), TensorProto.INT32)


def _constants(x, w, scales, zero_points) -> dict[str, NDArray]:
    def as_scale(value):
        return np.asarray(value, dtype=np.float32)

    w_zero = np.broadcast_to(zero_points[1], np.shape(scales[1]))
    return {
        "x_scale": as_scale(scales[0]),
        "x_zero": np.array(zero_points[0], dtype=x.dtype),
        "w": w,
        "w_scale": as_scale(scales[1]),
        "w_zero": w_zero.astype(w.dtype),
        "y_scale": as_scale(scales[2]),
        "y_zero": np.array(zero_points[2], dtype=x.dtype),
    }


def _run(operator: str, x, constants: dict[str, NDArray], shape, output_type) -> NDArray:
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", *constants], ["y"])],
        "one_operator",
        [helper.make_tensor_value_info("x", _QUANTIZED[x.dtype], x.shape)],
        [helper.make_tensor_value_info("y", output_type, shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    session = open_onnx(model.SerializeToString())
    return np.asarray(session.run(None, {"x": x})[0])
