"""Drawn QONNX networks on the machine against the definition of QONNX, quantizer by quantizer.

The file is evaluated as it is: nothing of the importer takes part. Each quantizer reads what the
machine has made before it, so differences do not spread. ``TPULITE_SWEEP=400`` draws more networks.
"""

import os
from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from onnx import helper
from onnx.numpy_helper import to_array

from tpulite.frontend.onnx.file import load_onnx
from tpulite.runtime.model import Model
from tpulite_testing.files.qonnx_draft import Draft
from tpulite_testing.oracles.qonnx import bounds, evaluate
from tpulite_testing.quick_options import quick_options

SEEDS = max(2, int(os.environ.get("TPULITE_SWEEP", "40")) // 7)

_FLOATS = 2.0**-16
"""Bound of the relative error of sums in float32."""

_STEPS = 1.5
"""Steps of a sum that LiteRT's integers may be off: half a step by the bias, and one by the
multiplier, which rounds twice, first to units of up to two steps."""


class Drawn:
    """A network, and what one step of the sums that a quantizer rounds is worth in its result."""

    def __init__(self, seed: int, *, rows: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = Draft((3, 16) if rows else (1, 8, 7, 6))
        self.b.rng = self.rng
        self.units: dict[str, np.ndarray | float] = {}
        self.bits = 8
        self.scale = (
            2.0 ** -self.rng.integers(4, 7) if self.draw(2) else self.rng.uniform(0.01, 0.1)
        )
        self.y = self.quantized("x", 0.0, self.scale, self.bits, 1)

    def draw(self, *choices):
        """Return one of some values, or a number below the only one."""
        if len(choices) == 1:
            return int(self.rng.integers(choices[0]))
        return choices[self.rng.integers(len(choices))]

    def quantized(self, y: str, unit, scale: float, bits: int, signed: int) -> str:
        narrow = self.draw(2)
        self.scale, self.bits = float(np.float32(scale)), bits
        y = self.b.quant(y, self.scale, bits, signed=signed, narrow=narrow)
        self.units[y] = unit
        return y

    def weight(self, *shape: int, axis: int = 0) -> tuple[str, np.ndarray, int]:
        """Return weights, their scales, one for each output, and bits."""
        bits, outputs = self.draw(1, 2, 4, 8, 8), shape[axis]
        step = self.rng.uniform(0.01, 0.1, outputs if self.draw(2) else 1).astype(np.float32)
        along = step.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        low, high = bounds(max(bits, 2))
        values = self.rng.uniform(1.1 * low, 1.1 * high, shape) * along
        if bits == 1:
            made = self.b.node("BipolarQuant", values, along, domain=self.b.domain)
            return made, np.broadcast_to(step, outputs), bits
        mode = self.draw("ROUND", "CEIL", "FLOOR")
        made = self.b.quant(values, along, bits, narrow=self.draw(2), rounding_mode=mode)
        return made, np.broadcast_to(step, outputs), bits

    def normalized(self, y: str, outputs: int, size: float) -> tuple[str, np.ndarray]:
        """Return a batch normalization of results of a size, and its gains."""
        gamma, variance = self.rng.normal(size=outputs), self.rng.uniform(0.5, 2, outputs)
        gamma += np.copysign(0.2, gamma)
        sides = (self.rng.normal(0, size, outputs) for _ in range(2))
        y = self.b.node("BatchNormalization", y, gamma, *sides, variance)
        return y, np.abs(gamma / np.sqrt(variance + 1e-5))

    def product(self, outputs: int, inputs: int, form: str) -> None:
        """Add a product, perhaps with a normalization and a ReLU, and a quantizer."""
        group = {"grouped": 2, "depthwise": inputs}.get(form, 1)
        dense = form in ("Gemm", "MatMul")
        shape = (inputs, outputs) if dense else (outputs, inputs // group, 3, 3)
        name, step, width = self.weight(*shape, axis=int(dense))
        unit = self.scale * step.astype(np.float64)
        count = np.prod(shape) / outputs
        size = float(np.sqrt(count) * 2.0 ** max(width - 2, 0) * 2.0 ** (self.bits - 2)) / 2
        flags = {} if dense else {"group": group, "pads": [1] * 4}
        bias = [self.rng.normal(0, size * unit.max(), outputs)] if self.draw(2) else []
        op, more = ("Conv" if not dense else form), ([] if form == "MatMul" else bias)
        y = self.b.node(op, self.y, name, *more, **flags)
        if self.draw(2):
            y, gain = self.normalized(y, outputs, size * unit.max())
            unit *= gain
        signed = self.draw(2)
        if not signed:
            y = self.b.node("Relu", y)
        bits = self.draw(3, 4, 6, 8)
        scale = unit.max() * max(32, size / 2.0 ** (bits - 2))
        if self.draw(2):
            scale = 2.0 ** np.ceil(np.log2(scale))
        shape = (-1,) if dense else (-1, 1, 1)
        self.y = self.quantized(y, (unit / scale).reshape(shape), scale, bits, signed)

    def added(self, other: str, scale: float) -> None:
        """Add a quantized tensor; sums have twenty bits below the larger of both scales."""
        larger = max(scale, self.scale)
        made = larger * self.rng.uniform(1, 2)
        y = self.b.node("Add", self.y, other)
        self.y = self.quantized(y, larger / made * 2.0**-18, made, 8, 1)


def images(seed: int) -> Drawn:
    net = Drawn(seed)
    net.product(8, 8, net.draw("Conv", "grouped", "depthwise"))
    skip, scale = net.y, net.scale
    net.product(8, 8, net.draw("Conv", "grouped", "depthwise"))
    if net.draw(2):
        net.added(skip, scale)
    if net.draw(2):
        net.y = net.b.node("MaxPool", net.y, kernel_shape=[2, 2], strides=[2, 2])
    net.product(12, 8, "Conv")
    return net


def rows(seed: int) -> Drawn:
    net = Drawn(seed, rows=True)
    for outputs, inputs in ((24, 16), (24, 24), (10, 24)):
        net.product(outputs, inputs, net.draw("Gemm", "MatMul"))
    return net


@dataclass(frozen=True)
class Counts:
    """Integers of quantizers, and those of them that one step decides, or that nothing reads."""

    total: int = 0
    halves: int = 0
    unread: int = 0


def machine_integers(model: Model, x: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return integers and whether they are computed, by names in the file that is read."""
    assert model.graph.source is not None
    results, masks = model.run({"x": x}, tensors=True), model.known_channels()
    every, origins = {**results.tensors, **results.outputs}, model.graph.source.origins
    return {
        str(origins[y].key): (
            origins[y].to_file(value),
            origins[y].to_file(np.broadcast_to(masks.get(y, np.True_), value.shape)),
        )
        for y, value in every.items()
        if y in origins
    }


def compared(net: Drawn, seed: int) -> tuple[Model, Counts]:
    """Compare what the machine makes of each quantizer with what it makes by definition."""
    data = net.b.build(net.y)
    shape = [each.dim_value for each in net.b.inputs[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)
    model = Model.load(load_onnx(data, "net"), options=quick_options())
    made, constants = machine_integers(model, x), {t.name: to_array(t) for t in net.b.tensors}
    quantizers, values = [], {}
    for index, node in enumerate(net.b.nodes):
        y, label = node.output[0], f"{node.op_type}_{index}"
        if y in net.units:
            flags = {each.name: helper.get_attribute_value(each) for each in node.attribute}
            integers, read = made.get(f"{label}/clipped") or made[f"{label}/integers"]
            integers = integers.astype(np.int64) + (0 if flags["signed"] else 128)
            scale, bits = constants[node.input[1]], int(constants[node.input[3]])
            ends = bounds(bits, signed=flags["signed"], narrow=flags["narrow"])
            quantizers.append((node.input[0], scale, ends, net.units[y], integers, read))
            values[y] = integers.astype(np.float32) * scale
    defined, count = evaluate(data, {"x": x}, values), Counts()
    for name, scale, ends, unit, integers, read in quantizers:
        steps = defined.values[name].astype(np.float64) / scale
        near = _STEPS * unit + _FLOATS * (1 + np.abs(steps))
        least = np.ceil(steps - 0.5 - near).clip(*ends)
        most = np.floor(steps + 0.5 + near).clip(*ends)
        wrong = read & ((integers < least) | (integers > most))
        assert not wrong.any(), f"{name}: {wrong.sum()} of {wrong.size} differ"
        halves, unread = int((least != most).sum()), int((~read).sum())
        count = Counts(count.total + read.size, count.halves + halves, count.unread + unread)
    return model, count


@pytest.mark.parametrize("draw", [images, rows])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_quantizers_are_as_defined_but_for_halves(draw, seed):
    """Sums and their factors are integers of LiteRT: results that one step decides may differ."""
    model, count = compared(draw(seed), seed)
    assert model.cpu_share == 0
    assert count.halves + count.unread < count.total / 4
