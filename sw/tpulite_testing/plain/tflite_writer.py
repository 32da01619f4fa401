"""A plain network as TensorFlow's converter writes it: int8 or uint8, scales from a calibration."""

import numpy as np

from tpulite_testing.plain.network import Network, Step
from tpulite_testing.plain.tflite_products import Products, TfliteForm
from tpulite_testing.plain.tflite_scales import Scale, quantized_constant, range_scale

__all__ = ["TFLITE_FORMS", "TfliteForm", "write_plain_tflite"]


TFLITE_FORMS = (
    TfliteForm(),
    TfliteForm(ends="float32", expand="EXPAND_DIMS"),
    TfliteForm("uint8", "uint8", per_channel=False),
    TfliteForm(ends="uint8", per_channel=False, keep_rows=False),
    TfliteForm(open_batch=True),
    TfliteForm(fused=False),
)

_ALONE = {
    "relu": "RELU",
    "relu6": "RELU6",
    "hard_swish": "HARD_SWISH",
    "sigmoid": "LOGISTIC",
    "tanh": "TANH",
    "leaky_relu": "LEAKY_RELU",
}


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


class _Writer(Products):
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
            if form.open_batch:
                self.b.tensors[self.b.inputs[-1]].shapeSignature = [-1, *shape[1:]]
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

    # ---- Maps and rows

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

    frames = sequence = flatten

    def positions(self, step: Step) -> None:
        self._done(step, self._reshaped(self._x(step), self.network.shape(step.outputs[0])))

    as_map = positions

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

    def widen(self, step: Step) -> None:
        pads = [(0, 0), (0, 0), (0, 0), (0, step["channels"])]
        self._done(step, self.b.pad(self._x(step), pads))

    def cut_off(self, step: Step) -> None:
        x = self._x(step)
        batch, _, channels = self.b.shape(x)
        shape = (batch, step["length"], channels)
        ends = [self.b.constant(np.array(each, np.int32)) for each in ((0, 0, 0), shape, (1, 1, 1))]
        options = {"options_type": "StridedSliceOptions"}
        y = self.b.operator("STRIDED_SLICE", [x, *ends], [self.b.like(x, shape)], **options)
        self._done(step, y)

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
