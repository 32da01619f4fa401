"""Convolutions, dense layers and their padding in TFLite; the rest is in ``tflite_writer``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite_testing.files.tflite_builder import Builder, schema
from tpulite_testing.plain.network import Network, Step
from tpulite_testing.plain.tflite_scales import Scale, Scales, quantized_constant

__all__ = ["Products", "TfliteForm"]


@dataclass(frozen=True)
class TfliteForm:
    """What converters do in one way or another."""

    #: Of activations: ``int8`` has scales for each channel of convolutions, ``uint8`` has one scale
    #: and a zero point for a weight, as networks trained with quantization had.
    dtype: str = "int8"
    ends: str = "int8"  #: Type of inputs and outputs.
    per_channel: bool = True  #: Whether dense layers have scales for each output, too.
    expand: str = "RESHAPE"  #: What makes a map of a row: ``RESHAPE`` or ``EXPAND_DIMS``.
    #: Whether a dense layer keeps the rank of its input, or stands between reshapes.
    keep_rows: bool = True
    #: Whether the batch is open, as where Keras is told no other: dilated convolutions are plain
    #: ones of blocks, between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND, and shapes are computed.
    open_batch: bool = False
    #: Whether ReLU and ReLU6 are part of the operator in front of them, or operators that are
    #: quantized as their inputs.
    fused: bool = True


_FUSED = ("conv", "dense", "add", "sub", "mul", "batch_norm", "max_pool", "average_pool")
_VALID = (0, 0, 0, 0)


class Products:
    """A file under construction, with a method for each step that has weights."""

    def __init__(self, network: Network, form: TfliteForm) -> None:
        self.network, self.form = network, form
        self.b = Builder(form.dtype)
        self.index: dict[str, int] = {}
        self.weights: dict[int, int] = {}
        made = {name: step for step in network.steps for name in step.outputs}
        fused = {step.outputs[0]: step for step in network.steps if _fuses(network, made, step)}
        self.scales = Scales(network, form.dtype, fused)
        self.fused = fused if form.fused else {}
        self.behind = {step.inputs[0]: step for step in self.fused.values()}

    def _reshaped(self, x: int, shape: Sequence[int]) -> int:
        """Add a reshape, to a computed shape if the batch is open."""
        if not self.form.open_batch:
            return self.b.reshape(x, shape)
        sizes = self.b.tensor((len(self.b.shape(x)),), dtype="int32")
        self.b.operator("SHAPE", [x], [sizes], options_type="ShapeOptions", outType=2)
        ends = [self.b.constant(np.array([n], np.int32)) for n in (0, 1, 1)]
        batch = self.b.tensor((), dtype="int32")
        options = {"options_type": "StridedSliceOptions", "shrinkAxisMask": 1}
        self.b.operator("STRIDED_SLICE", [sizes, *ends], [batch], **options)
        rest = [self.b.constant(np.array(n, np.int32)) for n in shape[1:]]
        wanted = self.b.tensor((len(shape),), dtype="int32")
        options = {"options_type": "PackOptions", "valuesCount": len(shape)}
        self.b.operator("PACK", [batch, *rest], [wanted], **options)
        y = self.b.like(x, shape)
        return self.b.operator("RESHAPE", [x, wanted], [y], options_type="ReshapeOptions")

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

    def conv(self, step: Step) -> None:
        """Add CONV_2D or DEPTHWISE_CONV_2D, and what pads, expands or takes apart its input."""
        weight, x, dilation = step["weight"], self._x(step), step["dilation"]
        row, blocks = len(self.b.shape(x)) == 3, self.form.open_batch and max(dilation) > 1
        name = self._padding(step, x, weight.shape[1:3], dilation)
        crops = np.zeros(0)
        if blocks:
            x, crops = self._as_blocks(x, step)
            name, dilation = "VALID", (1, 1)
        elif not name:
            x, name = self._padded(x, step["padding"]), "VALID"
        x = self._expanded(x) if row else x
        depthwise = 1 < step["groups"] == self.b.shape(x)[3]
        options: dict[str, Any] = {
            "options_type": "Conv2DOptions",
            "padding": getattr(schema.Padding, name),
            "strideH": step["stride"][0],
            "strideW": step["stride"][1],
            "dilationHFactor": dilation[0],
            "dilationWFactor": dilation[1],
        }
        if depthwise:
            options["options_type"] = "DepthwiseConv2DOptions"
            options["depthMultiplier"] = len(weight) // step["groups"]
        code = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        shape = self.network.shape(step.outputs[0])
        if blocks:
            extents = (
                n - k + 1 for n, k in zip(self.b.shape(x)[1:3], weight.shape[1:3], strict=True)
            )
            made = (self.b.shape(x)[0], *extents, shape[-1])
        else:
            made = (shape[0], 1, *shape[1:]) if row else shape
        y = self._product(code, x, step, made, options)
        y = self._squeezed(y) if row else y
        self._done(step, self._from_blocks(y, step, shape, crops) if blocks else y)

    def _as_blocks(self, x: int, step: Step) -> tuple[int, np.ndarray]:
        """Return the phases of a dilated convolution in the batch, and what is cut off later."""
        batch, *extents, channels = self.b.shape(x)
        axes = slice(2 - len(extents), None)  # a row has but the second one
        sizes, (top, left, bottom, right) = step["dilation"][axes], step["padding"]
        pads = np.array([(top, bottom), (left, right)], np.int32)[axes]
        fill = [-(n + sum(pair)) % d for n, pair, d in zip(extents, pads, sizes, strict=True)]
        pads[:, 1] += fill
        extents = [(n + sum(p)) // d for n, p, d in zip(extents, pads, sizes, strict=True)]
        y = self.b.like(x, (batch * int(np.prod(sizes)), *extents, channels))
        inputs = [x, *map(self.b.constant, (np.array(sizes, np.int32), pads))]
        options = {"options_type": "SpaceToBatchNDOptions"}
        y = self.b.operator("SPACE_TO_BATCH_ND", inputs, [y], **options)
        return y, np.array([(0, each) for each in fill], np.int32)

    def _from_blocks(self, x: int, step: Step, shape: Sequence[int], crops: np.ndarray) -> int:
        """Return the positions in their order again."""
        sizes = np.array(step["dilation"][-len(crops) :], np.int32)
        inputs = [x, *map(self.b.constant, (sizes, crops))]
        options = {"options_type": "BatchToSpaceNDOptions"}
        return self.b.operator("BATCH_TO_SPACE_ND", inputs, [self.b.like(x, shape)], **options)

    def dense(self, step: Step) -> None:
        """Add FULLY_CONNECTED."""
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
        """Add TRANSPOSE_CONV."""
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


def _fuses(network: Network, made: dict[str, Step], step: Step) -> bool:
    """Return whether an activation is part of the operator in front of it."""
    if step.kind != "activation" or step["function"] not in ("relu", "relu6"):
        return False
    (x,) = step.inputs
    alone = len(network.readers(x)) == 1 and x not in network.outputs
    return x in made and made[x].kind in _FUSED and alone
