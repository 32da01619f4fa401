"""Operators of TFLite files that move a window over an image."""

from collections.abc import Callable, Mapping
from typing import Any

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
