"""Operators of TFLite files: what each becomes in a graph."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tflite

from tpulite.frontend.padding import pad_same
from tpulite.frontend.tflite.operation import (
    Inputs,
    Operation,
    UnsupportedFormError,
    constant_integers,
    fused_activation,
    present,
)
from tpulite.frontend.tflite.parse import FileOperator
from tpulite.frontend.tflite.recurrent import convert_lstm, convert_svdf
from tpulite.graph.graph import Tensor


def convert_conv(options, inputs, outputs) -> Operation:
    """Convert CONV_2D."""
    x, weight = inputs[:2]
    if len(weight.shape) != 4:
        raise ValueError(f"its weights must have 4 axes, not shape {list(weight.shape)}")
    attributes = _window(options, x, weight.shape[1:3])
    group, rest = divmod(x.shape[3], weight.shape[3])
    if rest or weight.shape[0] % group:
        raise ValueError(f"channels of its weights must divide {x.shape[3]}, not {weight.shape[3]}")
    attributes |= {"group": group, "activation": fused_activation(options)}
    return Operation("conv", present(inputs), attributes)


def convert_transposed(options, inputs, outputs) -> Operation:
    """Convert TRANSPOSE_CONV; its first input is the shape of its output, which is known."""
    weight, x = inputs[1:3]
    for what, tensor in (("input", x), ("weights", weight), ("output", outputs[0])):
        if len(tensor.shape) != 4:
            raise ValueError(f"its {what} must have 4 axes, not shape {list(tensor.shape)}")
    found = _window(options, outputs[0], weight.shape[1:3])
    same = options.get("Padding", 0) == tflite.Padding.SAME
    attributes = {"stride": found["stride"], "padding": found["padding"][:2], "same": same}
    if inputs[0].data is None:
        attributes["said_by"] = inputs[0].name  # an input of the network, which the library reads
    bias = () if len(inputs) < 4 or inputs[3] is None else (3,)
    activation = fused_activation(options)
    return Operation("transposed_conv", (2, 1, *bias), attributes | {"activation": activation})


def convert_depthwise(options, inputs, outputs) -> Operation:
    """Convert DEPTHWISE_CONV_2D; its weights still have the file's four axes."""
    x, weight = inputs[:2]
    if len(weight.shape) != 4 or weight.shape[0] != 1:
        raise ValueError(f"its weights must be [1, y, x, channels], not {list(weight.shape)}")
    if weight.data is None:
        raise UnsupportedFormError("its weights are not constant")
    attributes = _window(options, x, weight.shape[1:3])
    # The option depth_multiplier is redundant, and the schema says that it is ignored.
    if not x.shape[3]:
        raise UnsupportedFormError("its feature map has no channels")
    multiplier, rest = divmod(weight.shape[3], x.shape[3])
    if rest:
        raise ValueError(f"{weight.shape[3]} channels are not a multiple of {x.shape[3]}")
    attributes |= {"multiplier": multiplier, "activation": fused_activation(options)}
    return Operation("depthwise", present(inputs), attributes)


def pool_conversion(op: str, **attributes: Any) -> Callable[..., Operation]:
    """Make the conversion of a pooling operator, with attributes that it always has."""

    def convert(options, inputs, outputs) -> Operation:
        window = options.get("FilterHeight", 0), options.get("FilterWidth", 0)
        found = _window(options, inputs[0], window)
        del found["dilation"]
        activation = fused_activation(options)
        return Operation(
            op, (0,), {"window": window, **found, "activation": activation} | attributes
        )

    return convert


def convert_pad(options, inputs, outputs) -> Operation:
    """Convert PAD and PADV2."""
    x = inputs[0]
    amounts = constant_integers(inputs[1], "paddings")
    if amounts.shape != (len(x.shape), 2):
        raise ValueError(f"paddings must be {[len(x.shape), 2]}, not {list(amounts.shape)}")
    if amounts.min() < 0:
        raise ValueError(f"paddings must not be negative, not {amounts.min()}")
    if len(x.shape) != 4 or amounts[[0, 3]].any():
        around = tuple((before, after) for before, after in amounts.tolist())
        value = _fill(inputs, outputs[0])
        return Operation("pad_axes", (0,), {"around": around, "value": value})
    (top, bottom), (left, right) = amounts[1:3].tolist()
    return Operation(
        "pad", (0,), {"padding": (top, left, bottom, right), "value": _fill(inputs, outputs[0])}
    )


def _fill(inputs: Inputs, y: Tensor) -> int | float:
    """Return what PAD and PADV2 add: a given value, or the integer that means zero."""
    if len(inputs) > 2 and inputs[2] is not None:
        value = inputs[2]
        if value.data is None or value.data.size != 1 or value.dtype != y.dtype:
            raise UnsupportedFormError("its value is not a constant of the output's type")
        return value.data.item()
    return int(y.quantization.zero_point[0]) if y.quantization else 0


def _window(options: Mapping[str, Any], x: Tensor, kernel: tuple[int, int]) -> dict[str, Any]:
    """Return stride, dilation and padding of a window that moves over an image."""
    if len(x.shape) != 4:
        raise ValueError(f"its input must have 4 axes, not shape {list(x.shape)}")
    stride = options.get("StrideH", 0), options.get("StrideW", 0)
    dilation = options.get("DilationHFactor", 1), options.get("DilationWFactor", 1)
    for what, pair in (("strides", stride), ("dilations", dilation), ("windows", kernel)):
        if min(pair) < 1:
            raise ValueError(f"{what} must be positive, not {pair}")
    padding = options.get("Padding", 0)
    if padding not in (tflite.Padding.SAME, tflite.Padding.VALID):
        raise ValueError(f"padding must be 0 (SAME) or 1 (VALID), not {padding}")
    top = left = bottom = right = 0
    if padding == tflite.Padding.SAME:
        top, bottom = pad_same(x.shape[1], kernel[0], stride[0], dilation[0])
        left, right = pad_same(x.shape[2], kernel[1], stride[1], dilation[1])
    return {"stride": stride, "dilation": dilation, "padding": (top, left, bottom, right)}


def convert_operator(file: FileOperator, inputs: Inputs, outputs: tuple[Tensor, ...]) -> Operation:
    """Translate an operator.

    Operators that graphs do not know keep their name, in lower case, and have no attributes. Forms
    that they cannot express become ``unsupported``, with the attribute ``reason``.

    Parameters
    ----------
    inputs, outputs : tuple of Tensor
        Its tensors; a missing optional input is None.

    Raises
    ------
    ValueError
        If inputs or outputs are missing, or an option is impossible.
    """
    every = tuple(range(len(inputs)))
    if file.code not in OPERATIONS:
        return Operation(file.code.lower(), every, {})
    convert, least = OPERATIONS[file.code]
    missing = [i for i in range(least) if i >= len(inputs) or inputs[i] is None]
    if missing:
        raise ValueError(f"input {missing[0]} is missing")
    if not outputs:
        raise ValueError("it has no output")
    for tensor in (*inputs, *outputs):
        if tensor is not None and tensor.dtype == "object":
            reason = f"tensor {tensor.name!r} has a type or layout that numpy does not support"
            return Operation("unsupported", every, {"reason": reason})
    try:
        return convert(file.options, inputs, outputs)
    except UnsupportedFormError as reason:
        return Operation("unsupported", every, {"reason": str(reason)})


def _dense(options, inputs, outputs) -> Operation:
    if options.get("WeightsFormat", 0) != 0:
        raise UnsupportedFormError(f"its weights have format {options['WeightsFormat']}")
    return Operation("dense", present(inputs), {"activation": fused_activation(options)})


def _elementwise(op: str):
    def convert(options, inputs, outputs) -> Operation:
        return Operation(op, (0, 1), {"activation": fused_activation(options)})

    return convert


def _reduction(op: str):
    def convert(options, inputs, outputs) -> Operation:
        axes = _axes(inputs[1], inputs[0])
        return Operation(op, (0,), {"axes": axes, "keep_dims": bool(options.get("KeepDims", 0))})

    return convert


def _concat(options, inputs, outputs) -> Operation:
    rank, axis = len(outputs[0].shape), options.get("Axis", 0)
    if None in inputs:
        raise ValueError("an input is missing")
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is not one of shape {list(outputs[0].shape)}")
    attributes = {"axis": axis % rank, "activation": fused_activation(options)}
    return Operation("concat", tuple(range(len(inputs))), attributes)


def _reshape(options, inputs, outputs) -> Operation:
    # Shapes are static, so the output has the wanted one, even if it was computed at run time.
    return Operation("reshape", (0,), {"shape": outputs[0].shape})


def _function(op: str, **fields: str):
    """Make a conversion that takes attributes from the options of these names."""

    def convert(options, inputs, outputs) -> Operation:
        attributes = {name: options.get(field, 0.0) for name, field in fields.items()}
        return Operation(op, (0,), attributes)

    return convert


def _elu(options, inputs, outputs) -> Operation:
    return Operation("elu", (0,), {"alpha": 1.0})


def _quantize(options, inputs, outputs) -> Operation:
    real = np.issubdtype(inputs[0].dtype, np.floating)
    return Operation("quantize" if real else "requantize", (0,), {})


def _argmax(options, inputs, outputs) -> Operation:
    (axis, *more) = _axes(inputs[1], inputs[0])
    if more:
        raise ValueError("it has more than one axis")
    return Operation("argmax", (0,), {"axis": axis})


def _transpose(options, inputs, outputs) -> Operation:
    order = tuple(constant_integers(inputs[1], "permutations").ravel().tolist())
    if sorted(order) != list(range(len(inputs[0].shape))):
        raise ValueError(f"{list(order)} is not a permutation of {len(inputs[0].shape)} axes")
    return Operation("transpose", (0,), {"perm": order})


def _with_options(op: str, **fields: str):
    """Make a conversion that keeps all inputs and takes attributes from integer options."""

    def convert(options, inputs, outputs) -> Operation:
        attributes = {name: int(options.get(field, 0)) for name, field in fields.items()}
        return Operation(op, tuple(range(len(inputs))), attributes)

    return convert


def _resize(op: str):
    corners = {"align_corners": "AlignCorners", "half_pixel_centers": "HalfPixelCenters"}
    return _with_options(op, **corners)


def _axes(tensor: Tensor, x: Tensor) -> tuple[int, ...]:
    axes, rank = constant_integers(tensor, "axes").ravel().tolist(), len(x.shape)
    if not axes or not all(-rank <= axis < rank for axis in axes):
        raise ValueError(f"axes {axes} do not exist in shape {list(x.shape)}")
    return tuple(sorted({axis % rank for axis in axes}))


# For each builtin operator: its conversion, and how many inputs it must have.
OPERATIONS: Mapping[str, tuple[Callable[..., Operation], int]] = {
    "ABS": (_function("abs"), 1),
    "ADD": (_elementwise("add"), 2),
    "ARG_MAX": (_argmax, 2),
    "AVERAGE_POOL_2D": (pool_conversion("average_pool", count_include_pad=False), 1),
    "BATCH_MATMUL": (_with_options("matmul", adj_x="AdjX", adj_y="AdjY"), 2),
    "BATCH_TO_SPACE_ND": (_with_options("batch_to_space"), 3),
    "BROADCAST_TO": (_with_options("broadcast_to"), 2),
    "CONCATENATION": (_concat, 1),
    "CONV_2D": (convert_conv, 2),
    "DEPTHWISE_CONV_2D": (convert_depthwise, 2),
    "DEPTH_TO_SPACE": (_with_options("depth_to_space", block="BlockSize"), 1),
    "DEQUANTIZE": (_function("dequantize"), 1),
    "ELU": (_elu, 1),
    "EXP": (_function("exp"), 1),
    "EXPAND_DIMS": (_reshape, 1),
    "FULLY_CONNECTED": (_dense, 2),
    "GATHER": (_with_options("gather", axis="Axis", batch_dims="BatchDims"), 2),
    "GATHER_ND": (_with_options("gather_nd"), 2),
    "GELU": (_function("gelu", approximate="Approximate"), 1),
    "HARD_SWISH": (_function("hard_swish"), 1),
    "LEAKY_RELU": (_function("leaky_relu", alpha="Alpha"), 1),
    "LOG": (_function("log"), 1),
    "LOGISTIC": (_function("sigmoid"), 1),
    "MAX_POOL_2D": (pool_conversion("max_pool"), 1),
    "MAXIMUM": (_with_options("maximum"), 2),
    "MEAN": (_reduction("mean"), 2),
    "MINIMUM": (_with_options("minimum"), 2),
    "MIRROR_PAD": (_with_options("mirror_pad", symmetric="Mode"), 2),
    "MUL": (_elementwise("mul"), 2),
    "NEG": (_function("neg"), 1),
    "PACK": (_with_options("pack", axis="Axis"), 1),
    "PAD": (convert_pad, 2),
    "PADV2": (convert_pad, 3),
    "PRELU": (_with_options("prelu"), 2),
    "QUANTIZE": (_quantize, 1),
    "REDUCE_MAX": (_reduction("reduce_max"), 2),
    "REDUCE_MIN": (_reduction("reduce_min"), 2),
    "RELU": (_function("relu"), 1),
    "RELU6": (_function("relu6"), 1),
    "RELU_0_TO_1": (_function("relu_0_1"), 1),
    "RELU_N1_TO_1": (_function("relu_n1_1"), 1),
    "RESHAPE": (_reshape, 1),
    "RSQRT": (_function("rsqrt"), 1),
    "RESIZE_BILINEAR": (_resize("resize_bilinear"), 2),
    "RESIZE_NEAREST_NEIGHBOR": (_resize("resize_nearest"), 2),
    "REVERSE_V2": (_with_options("reverse"), 2),
    "SLICE": (_with_options("slice"), 3),
    "SOFTMAX": (_function("softmax", beta="Beta"), 1),
    "SPACE_TO_BATCH_ND": (_with_options("space_to_batch"), 3),
    "SPACE_TO_DEPTH": (_with_options("space_to_depth", block="BlockSize"), 1),
    "SPLIT": (_with_options("split"), 2),
    "SQRT": (_function("sqrt"), 1),
    "SQUARED_DIFFERENCE": (_with_options("squared_difference"), 2),
    "SPLIT_V": (_with_options("split_v"), 3),
    "SQUEEZE": (_reshape, 1),
    "STRIDED_SLICE": (
        _with_options(
            "strided_slice",
            begin_mask="BeginMask",
            end_mask="EndMask",
            ellipsis_mask="EllipsisMask",
            new_axis_mask="NewAxisMask",
            shrink_axis_mask="ShrinkAxisMask",
            offset="Offset",
        ),
        4,
    ),
    "SUB": (_elementwise("sub"), 2),
    "SUM": (_reduction("sum"), 2),
    "SVDF": (convert_svdf, 1),
    "TANH": (_function("tanh"), 1),
    "TILE": (_with_options("tile"), 2),
    "TRANSPOSE": (_transpose, 2),
    "TRANSPOSE_CONV": (convert_transposed, 3),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (convert_lstm, 1),
    "UNPACK": (_with_options("unpack", axis="Axis"), 1),
}
