"""A plain network as PyTorch exports it, quantized by ONNX Runtime's own static quantizer."""

import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.plain.network import Network, Step

__all__ = ["ONNX_FORMS", "OnnxForm", "write_float_onnx", "write_plain_onnx"]


@dataclass(frozen=True)
class OnnxForm:
    """What exporters and quantizers do in one way or another."""

    #: Types: ``int8`` or ``uint8``.
    activations: str = "uint8"
    weights: str = "int8"
    #: Whether operators stand between QuantizeLinear and DequantizeLinear, or are QLinear ones.
    qdq: bool = True
    per_channel: bool = False  #: Whether weights have a scale for each output.
    reduce_range: bool = False  #: Whether weights have seven bits.
    #: Whether the float network goes through ONNX Runtime's preparation first, as it asks for.
    prepared: bool = True
    flatten: bool = True  #: Whether maps become vectors by Flatten, or by Reshape.
    #: Whether weights of several layers reach all but the first through Identity, as PyTorch's
    #: older exporter has it; ONNX Runtime's preparation removes that.
    identities: bool = False


ONNX_FORMS = (
    OnnxForm(per_channel=True),
    OnnxForm("int8", per_channel=True),
    OnnxForm("uint8", "uint8", qdq=False),
    OnnxForm(prepared=False, flatten=False, identities=True),
    OnnxForm("int8", flatten=False),
    OnnxForm(per_channel=True, reduce_range=True),
    OnnxForm("uint8", "uint8", qdq=False, flatten=False, prepared=False),
    OnnxForm(qdq=False, per_channel=True),
)

_FUNCTIONS = {
    "relu": "Relu",
    "hard_swish": "HardSwish",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
}


def write_plain_onnx(network: Network, form: OnnxForm) -> bytes:
    """Return the quantized file.

    Parameters
    ----------
    network : Network
        The network.
    form : OnnxForm
        How it is spelled and quantized.
    """
    logging.getLogger().setLevel(logging.ERROR)  # the quantizer recommends its preparation
    types = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(write_float_onnx(network, form))
        if form.prepared:
            quant_pre_process(path, path, skip_symbolic_shape=True)
        quantize_static(
            path,
            path,
            _Samples(network),
            quant_format=QuantFormat.QDQ if form.qdq else QuantFormat.QOperator,
            per_channel=form.per_channel,
            reduce_range=form.reduce_range,
            activation_type=types[form.activations],
            weight_type=types[form.weights],
        )
        return path.read_bytes()


def write_float_onnx(network: Network, form: OnnxForm) -> bytes:
    """Return the float file, channels first."""
    return _Writer(network, form).write()


class _Samples(CalibrationDataReader):
    """Inputs of the calibration, one by one."""

    def __init__(self, network: Network) -> None:
        values = {name: _first(network.values[name]) for name in network.inputs}
        count = len(next(iter(values.values())))
        self._each = iter([{n: x[i : i + 1] for n, x in values.items()} for i in range(count)])

    def get_next(self) -> dict[str, np.ndarray]:
        return next(self._each, {})  # which ends it


def _first(values: np.ndarray) -> np.ndarray:
    """Return values with channels first."""
    return np.ascontiguousarray(np.moveaxis(values, -1, 1)) if values.ndim > 2 else values


class _Writer:
    """Maps are [N, C, H, W], rows [N, C, L] until an operator wants channels last."""

    def __init__(self, network: Network, form: OnnxForm) -> None:
        self.network, self.form = network, form
        self.b = OnnxBuilder(opset=17)
        self.names: dict[str, str] = {}
        self.rows_last: set[str] = set()
        """Rows [N, L, C]."""
        self.shared: dict[int, str] = {}

    def write(self) -> bytes:
        for name in self.network.inputs:
            shape = self.network.shape(name)
            if len(shape) > 2:
                shape = (shape[0], shape[-1], *shape[1:-1])
            self.names[name] = self.b.input(name, shape)
        for step in self.network.steps:
            getattr(self, step.kind)(step)
        return self.b.build(*(self.names[name] for name in self.network.outputs), dtype="float32")

    # ---- Layouts

    def _x(self, name: str, *, last: bool = False) -> str:
        """Return a tensor, channels last of a row if they are wanted so, else first."""
        x = self.names[name]
        if len(self.network.shape(name)) != 3 or last == (name in self.rows_last):
            return x
        return self.b.node("Transpose", x, perm=[0, 2, 1])

    def _done(self, step: Step, y: str, *, last: bool = False) -> None:
        self.names[step.outputs[0]] = y
        if last and len(self.network.shape(step.outputs[0])) == 3:
            self.rows_last.add(step.outputs[0])

    def _reshaped(self, x: str, *shape: int) -> str:
        return self.b.node("Reshape", x, np.array(shape, np.int64))

    # ---- Convolutions and dense layers

    def conv(self, step: Step) -> None:
        (x,) = step.inputs
        row = len(self.network.shape(x)) == 3
        top, left, bottom, right = step["padding"]
        spatial = 1 if row else 2
        pads = [left, right] if row else [top, left, bottom, right]
        x = self._x(x)
        if row and left != right:  # a causal convolution is padded by an operator
            x = self.b.node("Pad", x, np.array([0, 0, left, 0, 0, right], np.int64))
            pads = [0, 0]
        y = self.b.node(
            "Conv",
            x,
            *self._weights(step, row),
            kernel_shape=step["weight"].shape[1:3][-spatial:],
            strides=step["stride"][-spatial:],
            dilations=step["dilation"][-spatial:],
            group=step["groups"],
            pads=pads,
        )
        self._done(step, y)

    def _weights(self, step: Step, row: bool) -> list[str]:
        """Return weights [O, C, kh, kw] and biases; those of several steps are one constant."""
        weight = np.moveaxis(step["weight"], -1, 1)
        parts = ((step["weight"], weight[:, :, 0] if row else weight), (step["bias"],) * 2)
        return [self._shared(key, np.ascontiguousarray(value)) for key, value in parts]

    def _shared(self, key: np.ndarray, value: np.ndarray) -> str:
        if id(key) not in self.shared:
            self.shared[id(key)] = self.b.constant(value)
        elif self.form.identities:
            return self.b.node("Identity", self.shared[id(key)])
        return self.shared[id(key)]

    def transposed_conv(self, step: Step) -> None:
        weight = np.ascontiguousarray(np.moveaxis(step["weight"], -1, 0))  # [C, O, kh, kw]
        kernel, stride = weight.shape[2], step["stride"]
        pads = [(kernel - stride + 1) // 2] * 4
        more = [2 * pads[0] + stride - kernel] * 2
        x = self._x(step.inputs[0])
        y = self.b.node(
            "ConvTranspose",
            x,
            weight,
            step["bias"],
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=pads,
            output_padding=more,
        )
        self._done(step, y)

    def dense(self, step: Step) -> None:
        x, weight, bias = self._x(step.inputs[0], last=True), step["weight"], step["bias"]
        if len(self.network.shape(step.inputs[0])) == 2:
            y = self.b.node(
                "Gemm", x, self._shared(weight, weight), self._shared(bias, bias), transB=1
            )
        else:
            y = self.b.node("MatMul", x, np.ascontiguousarray(weight.T))
            y = self.b.node("Add", y, bias)
        self._done(step, y, last=True)

    # ---- Maps and rows

    def max_pool(self, step: Step) -> None:
        (x,) = step.inputs
        row = len(self.network.shape(x)) == 3
        spatial = 1 if row else 2
        top, left, bottom, right = step["padding"]
        options = (
            {"count_include_pad": 1} if step.kind == "average_pool" and any(step["padding"]) else {}
        )
        y = self.b.node(
            "MaxPool" if step.kind == "max_pool" else "AveragePool",
            self._x(x),
            kernel_shape=step["window"][-spatial:],
            strides=step["stride"][-spatial:],
            pads=[left, right] if row else [top, left, bottom, right],
            **options,
        )
        self._done(step, y)

    average_pool = max_pool

    def global_average(self, step: Step) -> None:
        y = self.b.node("GlobalAveragePool", self._x(step.inputs[0]))
        if not step["keep"]:
            y = self.b.node("Flatten", y) if self.form.flatten else self._reshaped(y, 1, -1)
        self._done(step, y)

    def resize(self, step: Step) -> None:
        scales = np.array([1, 1, 2, 2], np.float32)
        ways = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                "nearest_mode": "floor"}  # fmt: skip
        if step["linear"]:
            ways = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        y = self.b.node("Resize", self._x(step.inputs[0]), "", scales, **ways)
        self._done(step, y)

    def flatten(self, step: Step) -> None:
        x = self._x(step.inputs[0])
        batch = self.network.shape(step.outputs[0])[0]
        y = self.b.node("Flatten", x) if self.form.flatten else self._reshaped(x, batch, -1)
        self._done(step, y)

    def positions(self, step: Step) -> None:
        x, size = self._x(step.inputs[0]), step["size"]
        _, height, width, channels = self.network.shape(step.inputs[0])
        if self.form.flatten:  # as SSD's heads are spelled
            x = self.b.node("Transpose", x, perm=[0, 2, 3, 1])
        else:  # as YOLO's are
            x = self._reshaped(x, 1, channels // size, size, height, width)
            x = self.b.node("Transpose", x, perm=[0, 1, 3, 4, 2])
        self._done(step, self._reshaped(x, 1, -1, size), last=True)

    def as_map(self, step: Step) -> None:
        batch, height, width, channels = self.network.shape(step.outputs[0])
        x = self._x(step.inputs[0])
        self._done(step, self._reshaped(x, batch, channels, height, width))

    def frames(self, step: Step) -> None:
        batch, height, width, channels = self.network.shape(step.outputs[0])
        x = self._x(step.inputs[0])  # [1, C, batch * H, W]
        x = self._reshaped(x, channels, batch, height, width)
        self._done(step, self.b.node("Transpose", x, perm=[1, 0, 2, 3]))

    def sequence(self, step: Step) -> None:
        y = self._reshaped(self._x(step.inputs[0]), *self.network.shape(step.outputs[0]))
        self._done(step, y, last=True)

    # ---- Channels

    def concat(self, step: Step) -> None:
        last = step.kind == "rows"
        xs = [self._x(name, last=last) for name in step.inputs]
        self._done(step, self.b.node("Concat", *xs, axis=1), last=last)

    rows = concat

    def halves(self, step: Step) -> None:
        x = self._x(step.inputs[0])
        shape = self.network.shape(step.outputs[0])
        channels = shape[-1]
        for i, name in enumerate(step.outputs):
            ends = (np.array([v * channels], np.int64) for v in (i, i + 1))
            self.names[name] = self.b.node("Slice", x, *ends, np.array([1], np.int64))

    def widen(self, step: Step) -> None:
        pads = np.array([0, 0, 0, 0, 0, step["channels"], 0, 0], np.int64)
        self._done(step, self.b.node("Pad", self._x(step.inputs[0]), pads))

    def cut_off(self, step: Step) -> None:
        ends = (np.array([v], np.int64) for v in (0, step["length"], 2))
        self._done(step, self.b.node("Slice", self._x(step.inputs[0]), *ends))

    def shuffle(self, step: Step) -> None:
        batch, height, width, channels = self.network.shape(step.inputs[0])
        groups = step["groups"]
        x = self._x(step.inputs[0])
        x = self._reshaped(x, batch, groups, channels // groups, height, width)
        x = self.b.node("Transpose", x, perm=[0, 2, 1, 3, 4])
        self._done(step, self._reshaped(x, batch, channels, height, width))

    # ---- Elements

    def add(self, step: Step) -> None:
        last = all(name in self.rows_last for name in step.inputs)
        xs = [self._x(name, last=last) for name in step.inputs]
        self._done(step, self.b.node(step.kind.capitalize(), *xs), last=last)

    sub = mul = add

    def batch_norm(self, step: Step) -> None:
        scale, shift = step["scale"], step["shift"]
        zeros, ones = np.zeros_like(scale), np.ones_like(scale)
        x = self._x(step.inputs[0])
        self._done(step, self.b.node("BatchNormalization", x, scale, shift, zeros, ones))

    def activation(self, step: Step) -> None:
        (name,), function = step.inputs, step["function"]
        x, last = self.names[name], name in self.rows_last
        if function == "relu6":
            y = self.b.node("Clip", x, np.float32(0), np.float32(6))
        elif function == "silu":
            y = self.b.node("Mul", x, self.b.node("Sigmoid", x))
        elif function == "hard_sigmoid":
            y = self.b.node("HardSigmoid", x, alpha=1 / 6)
        elif function == "leaky_relu":
            y = self.b.node("LeakyRelu", x, alpha=0.125)
        else:
            y = self.b.node(_FUNCTIONS[function], x)
        self._done(step, y, last=last)

    def softmax(self, step: Step) -> None:
        y = self.b.node("Softmax", self._x(step.inputs[0], last=True), axis=-1)
        self._done(step, y, last=True)
