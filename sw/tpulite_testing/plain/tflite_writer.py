"""A plain network as TensorFlow's converter writes it: int8 or uint8, scales from a calibration."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite_testing.files.tflite_builder import Builder, schema
from tpulite_testing.plain.network import Network, Step
from tpulite_testing.plain.tflite_scales import Scale, Scales, quantized_constant, range_scale

__all__ = ["TFLITE_FORMS", "TfliteForm", "write_plain_tflite"]


@dataclass(frozen=True)
class TfliteForm:
    """What converters do in one way or another.

    Parameters
    ----------
    dtype : str
        Of activations: ``int8`` has scales for each channel of convolutions, ``uint8`` has one
        scale and a zero point for a weight, as networks trained with quantization had.
    ends : str
        Type of inputs and outputs.
    per_channel : bool
        Whether dense layers have scales for each output, too.
    expand : str
        What makes a map of a row: ``RESHAPE`` or ``EXPAND_DIMS``.
    keep_rows : bool
        Whether a dense layer keeps the rank of its input, or stands between reshapes.
    """

    dtype: str = "int8"
    ends: str = "int8"
    per_channel: bool = True
    expand: str = "RESHAPE"
    keep_rows: bool = True


TFLITE_FORMS = (
    TfliteForm(),
    TfliteForm(ends="float32", expand="EXPAND_DIMS"),
    TfliteForm("uint8", "uint8", per_channel=False),
    TfliteForm(ends="uint8", per_channel=False, keep_rows=False),
)

_FUSED = ("conv", "dense", "add", "sub", "mul", "batch_norm", "max_pool", "average_pool")
_ALONE = {
    "relu": "RELU",
    "relu6": "RELU6",
    "hard_swish": "HARD_SWISH",
    "sigmoid": "LOGISTIC",
    "tanh": "TANH",
    "leaky_relu": "LEAKY_RELU",
}
_VALID = (0, 0, 0, 0)


def write_plain_tflite(network: Network, form: TfliteForm) -> bytes:
    """Return the file.

    Parameters
    ----------
    network : Network
        The network.
    form : TfliteForm
        How it is spelled.
    """
    return _Writer(network, form).write()


class _Writer:
    def __init__(self, network: Network, form: TfliteForm) -> None:
        self.network, self.form = network, form
        self.b = Builder(form.dtype)
        self.index: dict[str, int] = {}
        self.weights: dict[int, int] = {}
        made = {name: step for step in network.steps for name in step.outputs}
        self.fused = {
            step.outputs[0]: step for step in network.steps if _fuses(network, made, step)
        }
        self.behind = {step.inputs[0]: step for step in self.fused.values()}
        self.scales = Scales(network, form.dtype, self.fused)

    def write(self) -> bytes:
        network, form = self.network, self.form
        converts = form.ends != form.dtype
        for name in network.inputs:
            scale, shape = self.scales.of(name), network.shape(name)
            if converts:
                x = self.b.tensor(shape, *self._end(scale), dtype=form.ends, name=name)
                self.b.inputs.append(x)
                self.index[name] = self.b.unary("QUANTIZE", x, *scale)
            else:
                self.index[name] = self.b.rename(self.b.input(shape, *scale), name)
        for step in network.steps:
            if step.outputs[0] not in self.fused:
                getattr(self, step.kind)(step)
        outputs = [self.index[name] for name in network.outputs]
        if converts:
            code = "DEQUANTIZE" if form.ends == "float32" else "QUANTIZE"
            outputs = [
                self.b.unary(code, y, *self._end(self.scales.of(name)), dtype=form.ends)
                for name, y in zip(network.outputs, outputs, strict=True)
            ]
        return self.b.build(*outputs, name=network.name)

    def _end(self, scale: Scale) -> tuple[float | None, int]:
        """Return the scale of an end of another type."""
        return (None, 0) if self.form.ends == "float32" else (scale[0], scale[1] + 128)

    def _x(self, step: Step) -> int:
        return self.index[step.inputs[0]]

    def _name(self, step: Step) -> str:
        """Return the tensor that an operator computes: that of an activation that is part of it."""
        behind = self.behind.get(step.outputs[0])
        return step.outputs[0] if behind is None else behind.outputs[0]

    def _scale(self, step: Step) -> Scale:
        return self.scales.of(self._name(step))

    def _activation(self, step: Step) -> str:
        behind = self.behind.get(step.outputs[0])
        return "NONE" if behind is None else behind["function"].upper()

    def _done(self, step: Step, y: int) -> None:
        self.index[self._name(step)] = y

    # ---- Convolutions and dense layers

    def conv(self, step: Step) -> None:
        weight, padding = step["weight"], step["padding"]
        x, row = self._x(step), len(self.b.shape(self._x(step))) == 3
        name = self._padding(step, x, weight.shape[1:3], step["dilation"])
        if not name:
            x, name = self._padded(x, padding), "VALID"
        x = self._expanded(x) if row else x
        depthwise = 1 < step["groups"] == self.b.shape(x)[3]
        options: dict[str, Any] = {
            "options_type": "Conv2DOptions",
            "padding": getattr(schema.Padding, name),
            "strideH": step["stride"][0],
            "strideW": step["stride"][1],
            "dilationHFactor": step["dilation"][0],
            "dilationWFactor": step["dilation"][1],
        }
        if depthwise:
            options["options_type"] = "DepthwiseConv2DOptions"
            options["depthMultiplier"] = len(weight) // step["groups"]
        code = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        shape = self.network.shape(step.outputs[0])
        shape = (shape[0], 1, *shape[1:]) if row else shape
        y = self._product(code, x, step, shape, options)
        self._done(step, self._squeezed(y) if row else y)

    def dense(self, step: Step) -> None:
        x = self._x(step)
        shape = self.b.shape(x)
        out = self.network.shape(step.outputs[0])
        options = {"options_type": "FullyConnectedOptions"}
        if len(shape) == 2 or self.form.keep_rows:
            options["keepNumDims"] = len(shape) > 2
            y = self._product("FULLY_CONNECTED", x, step, out, options)
        else:
            rows = self.b.reshape(x, (-1, shape[-1]))
            flat = (self.b.shape(rows)[0], out[-1])
            y = self.b.reshape(self._product("FULLY_CONNECTED", rows, step, flat, options), out)
        self._done(step, y)

    def transposed_conv(self, step: Step) -> None:
        shape = self.network.shape(step.outputs[0])
        options = {
            "options_type": "TransposeConvOptions",
            "padding": schema.Padding.SAME,
            "strideH": step["stride"],
            "strideW": step["stride"],
        }
        y = self._product("TRANSPOSE_CONV", self._x(step), step, shape, options)
        self._done(step, y)

    def _product(
        self, code: str, x: int, step: Step, shape: Sequence[int], options: dict[str, Any]
    ) -> int:
        """Add an operator with weights and biases."""
        weight, bias = self._weight(code, step["weight"]), step["bias"]
        scale = np.asarray(self.b.tensors[weight].quantization.scale, np.float32)
        scale = scale * np.float32(self.b.tensors[x].quantization.scale[0])
        bias = self.b.constant(np.rint(bias / scale).astype(np.int32), scale)
        y = self.b.tensor(shape, *self._scale(step))
        inputs = [x, weight, bias]
        if code == "TRANSPOSE_CONV":
            inputs = [self.b.constant(np.array(shape, np.int32)), weight, x, bias]
        else:
            function = self._activation(step)
            options["fusedActivationFunction"] = getattr(schema.ActivationFunctionType, function)
        return self.b.operator(code, inputs, [y], **options)

    def _weight(self, code: str, weight: np.ndarray) -> int:
        """Return the constant of a weight; that of several steps is one."""
        depthwise = code == "DEPTHWISE_CONV_2D"
        stored = np.moveaxis(weight, 0, -1)[..., 0, :][None] if depthwise else weight
        per_channel = self.form.per_channel or code != "FULLY_CONNECTED"

        if id(weight) in self.weights:
            return self.weights[id(weight)]
        if self.form.dtype == "uint8":
            data, scale = quantized_constant(stored, "uint8")
            constant = self.b.constant(data, *scale)
        else:
            axis = stored.ndim - 1 if depthwise else 0
            others = tuple(i for i in range(stored.ndim) if i != axis)
            most = np.abs(stored).max(others if per_channel else None, keepdims=True)
            scales = (np.maximum(most, 1e-4) / 127).astype(np.float32)
            data = np.rint(stored / scales).astype(np.int8)
            constant = self.b.constant(data, scales.ravel(), axis=axis)
        self.weights[id(weight)] = constant
        return constant

    # ---- Maps and rows

    def _padding(self, step: Step, x: int, kernel: Sequence[int], dilation: Sequence[int]) -> str:
        """Return SAME or VALID, or nothing if the padding is neither."""
        extents = self.b.shape(x)[1:-1]
        extents = (1, *extents) if len(extents) == 1 else extents
        sides = []
        for n, k, s, d in zip(extents, kernel, step["stride"], dilation, strict=True):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            sides.append((total // 2, total - total // 2))
        (top, bottom), (left, right) = sides
        if step["padding"] == _VALID:
            return "VALID"
        return "SAME" if step["padding"] == (top, left, bottom, right) else ""

    def _padded(self, x: int, padding: tuple[int, int, int, int]) -> int:
        top, left, bottom, right = padding
        pairs = [(top, bottom), (left, right)] if len(self.b.shape(x)) == 4 else [(left, right)]
        return self.b.pad(x, [(0, 0), *pairs, (0, 0)])

    def _expanded(self, x: int) -> int:
        """Return a row as a map of height 1."""
        batch, length, channels = self.b.shape(x)
        shape = (batch, 1, length, channels)
        if self.form.expand == "RESHAPE":
            return self.b.reshape(x, shape)
        axis = self.b.constant(np.array(1, np.int32))
        y = self.b.like(x, shape)
        return self.b.operator("EXPAND_DIMS", [x, axis], [y], options_type="ExpandDimsOptions")

    def _squeezed(self, y: int) -> int:
        batch, _, length, channels = self.b.shape(y)
        return self.b.reshape(y, (batch, length, channels))

    def max_pool(self, step: Step) -> None:
        x, window = self._x(step), step["window"]
        row = len(self.b.shape(x)) == 3
        name = self._padding(step, x, window, (1, 1))
        if not name:  # as Keras pads for PyTorch's weights; relu in front makes zeros the least
            x, name = self._padded(x, step["padding"]), "VALID"
        options = {"stride": step["stride"], "padding": name, "activation": self._activation(step)}
        x = self._expanded(x) if row else x
        y = self.b.pool(f"{step.kind.upper()}_2D", x, window, **options)
        self._done(step, self._squeezed(y) if row else y)

    average_pool = max_pool

    def global_average(self, step: Step) -> None:
        x = self._x(step)
        axes = tuple(range(1, len(self.b.shape(x)) - 1))
        self._done(step, self.b.mean(x, axes, *self._scale(step), keep_dims=step["keep"]))

    def resize(self, step: Step) -> None:
        x = self._x(step)
        batch, height, width, channels = self.b.shape(x)
        size = self.b.constant(np.array((2 * height, 2 * width), np.int32))
        y = self.b.like(x, (batch, 2 * height, 2 * width, channels))
        code = "RESIZE_BILINEAR" if step["linear"] else "RESIZE_NEAREST_NEIGHBOR"
        name = "ResizeBilinear" if step["linear"] else "ResizeNearestNeighbor"
        options = {"options_type": f"{name}Options", "halfPixelCenters": True}
        self._done(step, self.b.operator(code, [x, size], [y], **options))

    def flatten(self, step: Step) -> None:
        self._done(step, self.b.reshape(self._x(step), self.network.shape(step.outputs[0])))

    positions = as_map = frames = sequence = flatten

    # ---- Channels

    def concat(self, step: Step) -> None:
        scale, parts = self._scale(step), []
        for name in step.inputs:
            x = self.index[name]
            parts.append(
                x if self.scales.of(name) == scale else self.b.unary("QUANTIZE", x, *scale)
            )
        axis = 1 if step.kind == "rows" else len(self.b.shape(parts[0])) - 1
        self._done(step, self.b.concat(parts, axis))

    rows = concat

    def halves(self, step: Step) -> None:
        x = self._x(step)
        shape = self.b.shape(x)
        axis = self.b.constant(np.array(len(shape) - 1, np.int32))
        parts = [self.b.like(x, (*shape[:-1], shape[-1] // 2)) for _ in range(2)]
        self.b.operator("SPLIT", [axis, x], parts, options_type="SplitOptions", numSplits=2)
        self.index |= dict(zip(step.outputs, parts, strict=True))

    def shuffle(self, step: Step) -> None:
        x, groups = self._x(step), step["groups"]
        shape = self.b.shape(x)
        x = self.b.reshape(x, (*shape[:3], groups, shape[3] // groups))
        order = self.b.constant(np.array((0, 1, 2, 4, 3), np.int32))
        y = self.b.like(x, (*shape[:3], shape[3] // groups, groups))
        x = self.b.operator("TRANSPOSE", [x, order], [y], options_type="TransposeOptions")
        self._done(step, self.b.reshape(x, shape))

    # ---- Elements

    def add(self, step: Step) -> None:
        a, b = (self.index[name] for name in step.inputs)
        options = {"activation": self._activation(step)}
        self._done(step, self.b.elementwise(step.kind.upper(), a, b, *self._scale(step), **options))

    sub = mul = add

    def batch_norm(self, step: Step) -> None:
        product = self.network.values[step.inputs[0]] * step["scale"]
        middle = range_scale(product.min(), product.max(), self.form.dtype)
        y = self.b.elementwise("MUL", self._x(step), self._constant(step["scale"]), *middle)
        options = {"activation": self._activation(step)}
        y = self.b.add(y, self._constant(step["shift"]), *self._scale(step), **options)
        self._done(step, y)

    def activation(self, step: Step) -> None:
        x, function, scale = self._x(step), step["function"], self._scale(step)
        if function == "silu":
            gate = self.b.unary("LOGISTIC", x, *self.scales.fixed("sigmoid"))
            y = self.b.elementwise("MUL", x, gate, *scale)
        elif function == "hard_sigmoid":  # relu6(x + 3) / 6
            three, sixth = (self._constant(np.float32([value])) for value in (3, 1 / 6))
            six = range_scale(0, 6, self.form.dtype)
            y = self.b.add(x, three, *six, activation="RELU6")
            y = self.b.elementwise("MUL", y, sixth, *scale)
        else:
            leaky = {"options_type": "LeakyReluOptions", "alpha": 0.125}
            options = leaky if function == "leaky_relu" else {}
            y = self.b.unary(_ALONE[function], x, *scale, **options)
        self._done(step, y)

    def softmax(self, step: Step) -> None:
        options = {"options_type": "SoftmaxOptions", "beta": 1.0}
        y = self.b.unary("SOFTMAX", self._x(step), *self._scale(step), **options)
        self._done(step, y)

    def _constant(self, values: np.ndarray) -> int:
        """Add an operand that is known."""
        data, scale = quantized_constant(values, self.form.dtype)
        return self.b.constant(data, *scale)


def _fuses(network: Network, made: dict[str, Step], step: Step) -> bool:
    """Return whether an activation is part of the operator in front of it."""
    if step.kind != "activation" or step["function"] not in ("relu", "relu6"):
        return False
    (x,) = step.inputs
    alone = len(network.readers(x)) == 1 and x not in network.outputs
    return x in made and made[x].kind in _FUSED and alone
