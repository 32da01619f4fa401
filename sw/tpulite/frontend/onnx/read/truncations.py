"""Truncations of QONNX, which drop the least bits of integers, in ONNX's own operators.

    y = rounding(round(x / scale) / 2^bits) * scale of y

A truncated sum of a window is an average pool of FINN and Brevitas. It becomes a convolution whose
sums are scaled by 2^-bits; the bias of half a step less lets the nearest integer be the next lower
one. There are no halves then, so every library rounds alike.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import attributes_of


class Written:
    """An operator that is written in others.

    Its tensors have names that begin with ``name``; messages call it ``label``.
    """

    def __init__(
        self,
        node: onnx.NodeProto,
        label: str,
        name: str,
        constants: Mapping[str, np.ndarray],
        outputs: Collection[str],
    ) -> None:
        self.node, self.label, self.name = node, label, name
        self.constants, self.outputs = constants, outputs
        self.flags: Mapping[str, Any] = attributes_of(node)
        self.tensors: list[onnx.TensorProto] = []
        self._names: set[str] = set()

    def operand(self, index: int, what: str) -> np.ndarray:
        """Return a constant input as float32; ValueError if it is none."""
        name = self.node.input[index] if index < len(self.node.input) else ""
        if (value := self.constants.get(name)) is None:
            raise self.error(f"has a {what} that is computed; qonnx-cleanup may fold it")
        return value.astype(np.float32)

    def tensor(self, role: str, value: np.ndarray) -> str:
        """Add a constant; return its name."""
        name = f"{self.name}/{role}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def made(self, op: str, *inputs: str, y: str = "", **flags: Any) -> onnx.NodeProto:
        """Return an operator with one output, that of the whole unless another is named."""
        name = f"{self.name}/{op}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return helper.make_node(op, inputs, [y or self.node.output[0]], name=name, **flags)

    def error(self, text: str) -> ValueError:
        """Return an error that names the operator."""
        return ValueError(f"node {self.label!r} ({self.node.op_type}) {text}")


_ROUNDINGS: Mapping[str, tuple[str, int]] = {
    "FLOOR": ("Floor", -1),
    "CEIL": ("Ceil", 1),
    "ROUND": ("Round", 0),
}
"""Of each rounding the operator of floats, and the direction of its bias."""

_MOVES = ("Flatten", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose results are values of their first input."""

_SCALES = 6
"""Inputs of a truncation that names the scale of its result, since version 2."""

_WEIGHT = 4
"""Integer of the weight 1: its half of a step is even, as LiteRT rounds halves of sums first."""

_MOST_BITS = 16
_BYTE = 256
_SURE = 0.25
"""A sum that is this near to an integer is taken for it."""

Shape = Callable[[str], tuple[int, ...] | None]
"""Returns the shape of a tensor if it is known."""


@dataclass(frozen=True)
class _Source:
    """Integers from ``low`` to ``high`` that are averaged by a pool, and times a factor."""

    name: str
    scale: float
    low: int
    high: int
    kernel: tuple[int, ...]
    geometry: Mapping[str, Any]  #: Attributes of a convolution with the same windows.
    channels: int
    factor: float


class Truncation(Written):
    """A truncation: that of an average pool as a convolution, others as functions of floats."""

    def nodes(self, before: Mapping[str, onnx.NodeProto], shape: Shape) -> Sequence[onnx.NodeProto]:
        """Return the operators that take its place.

        Parameters
        ----------
        before : mapping of str to NodeProto
            The operators before it, by the names of their outputs; quantizers are written.
        shape : callable
            Returns the shape of a tensor.
        """
        scale = self._scalar(1, "scale")
        if self._scalar(2, "zero point"):
            raise self.error("has a zero point; it must be 0")
        if scale <= 0 or not np.isfinite(scale):
            raise self.error("has a scale that is not positive")
        named = len(self.node.input) >= _SCALES
        result = self._scalar(4, "result scale") if named else scale
        count = self._scalar(3, "bit width")
        left = self._scalar(4 + named, "result bit width")
        bits = float(np.round(np.log2(result / scale))) if named and result > 0 else count - left
        if bits not in range(_MOST_BITS + 1) or left not in range(1, 33) or result <= 0:
            raise self.error(f"drops {bits} of {count} bits; it must drop 0 to {_MOST_BITS}")
        mode = str(self.flags.get("rounding_mode", "FLOOR")).upper()
        if mode not in _ROUNDINGS:
            raise self.error(f"has the unknown rounding {mode}; it must be {', '.join(_ROUNDINGS)}")
        limits = self._limits(int(left)) if named else None
        source = self._source(before, shape)
        if source is not None:
            pool = self._pool(source, (scale, result), int(bits), mode, limits)
            if pool is not None:
                return pool
        return self._floats(scale, result, int(bits), mode, limits)

    def _scalar(self, index: int, what: str) -> float:
        value = self.operand(index, what)
        if value.size != 1:
            raise self.error(f"has a {what} of {value.size} numbers; it must be one")
        return float(value.item())

    def _limits(self, bits: int) -> tuple[int, int]:
        narrow = bool(self.flags.get("narrow", 0))
        if not self.flags.get("signed", 1):
            return 0, (1 << bits) - 1 - narrow
        return narrow - (1 << bits - 1), (1 << bits - 1) - 1

    def _source(self, before: Mapping[str, onnx.NodeProto], shape: Shape) -> _Source | None:
        """Return what is pooled, and how; None if what is truncated is no average of integers."""
        name, factor = self.node.input[0], 1.0
        maker = before.get(name)
        while maker is not None and maker.op_type in ("Mul", "Div"):
            known = [self.constants.get(each) for each in maker.input]
            index = 1 if known[1] is not None else 0
            value = known[index]
            if value is None or value.size != 1 or (maker.op_type == "Div" and index == 0):
                return None
            factor *= float(value.item()) ** (1 if maker.op_type == "Mul" else -1)
            maker = before.get(maker.input[1 - index])
        if maker is None or maker.op_type not in ("AveragePool", "GlobalAveragePool"):
            return None
        extents = shape(maker.input[0])
        if extents is None or len(extents) < 3 or min(extents[1:]) < 1:
            return None
        flags = attributes_of(maker)
        kernel = tuple(flags.pop("kernel_shape", extents[2:]))
        padded = any(flags.get("pads", ())) and not flags.pop("count_include_pad", 0)
        if padded or flags.pop("ceil_mode", 0) or flags.pop("auto_pad", "NOTSET") != "NOTSET":
            return None
        flags.pop("count_include_pad", 0)
        meaning = self._integers(before, maker.input[0])
        if meaning is None:
            return None
        scale, low, high = meaning
        return _Source(maker.input[0], scale, low, high, kernel, flags, extents[1], factor)

    def _integers(
        self, before: Mapping[str, onnx.NodeProto], name: str
    ) -> tuple[float, int, int] | None:
        """Return the scale of a tensor's values and their limits as integers."""
        maker = before.get(name)
        while maker is not None and maker.op_type in _MOVES:
            maker = before.get(maker.input[0])
        if maker is None or maker.op_type != "DequantizeLinear":
            return None
        scale, zero = (self.constants.get(each) for each in maker.input[1:3])
        if scale is None or zero is None or scale.size != 1:
            return None
        limits = [np.array(np.iinfo(zero.dtype).min), np.array(np.iinfo(zero.dtype).max)]
        clip = before.get(maker.input[0])
        if clip is not None and clip.op_type == "Clip":
            ends = [*clip.input[1:], "", ""][: len(limits)]
            known = zip(ends, limits, strict=True)
            limits = [self.constants.get(end, limit) for end, limit in known]
        low, high = (int(limit.item()) - int(zero.item()) for limit in limits)
        return float(scale.item()), low, high

    def _pool(
        self,
        source: _Source,
        scales: tuple[float, float],
        bits: int,
        mode: str,
        limits: tuple[int, int] | None,
    ) -> Sequence[onnx.NodeProto] | None:
        """Return a convolution of each channel; None if sums are not the integers themselves."""
        size, (scale, result) = int(np.prod(source.kernel)), scales
        low, high = min(source.low, 0) * size, max(source.high, 0) * size
        ratio = source.scale * source.factor / (scale * size)
        if abs(ratio - 1) * max(-low, high) > _SURE:
            return None
        steps = 1 << bits
        ends = [-(-low // steps) if mode == "CEIL" else low // steps, -(-high // steps)]
        kept = ends if limits is None else [int(np.clip(end, *limits)) for end in ends]
        clipped, ends = kept != ends, kept
        signed = ends[0] < 0
        if ends[1] >= _BYTE >> signed or ends[0] < -(_BYTE >> 1):
            return None
        unit = result / source.scale / (_WEIGHT * steps)
        shape = (source.channels, 1, *source.kernel)
        ones = self.tensor("ones", np.full(shape, _WEIGHT, np.int8))
        unit_name = self.tensor("unit", np.array(unit, np.float32))
        none = self.tensor("none", np.array(0, np.int8))
        weight, sums = f"{self.name}/weight", f"{self.name}/sums"
        inputs = [source.name, weight]
        direction = _ROUNDINGS[mode][1]
        if direction and bits:
            bias = direction * (steps - 1) * _WEIGHT / 2 * unit * source.scale
            inputs.append(self.tensor("bias", np.full(source.channels, bias, np.float32)))
        flags = {"kernel_shape": source.kernel, **source.geometry, "group": source.channels}
        return [
            self.made("DequantizeLinear", ones, unit_name, none, y=weight),
            self.made("Conv", *inputs, y=sums, **flags),
            *self._rounded(sums, result, ends if clipped else None, signed=signed),
        ]

    def _rounded(
        self, x: str, scale: float, limits: Sequence[int] | None, *, signed: bool
    ) -> Sequence[onnx.NodeProto]:
        """Return a quantizer, which clips unless there are no limits."""
        zero = 0 if signed else -(_BYTE >> 1)
        names = (
            self.tensor("scale", np.array(scale, np.float32)),
            self.tensor("zero_point", np.array(zero, np.int8)),
        )
        integers, clipped = f"{self.name}/integers", f"{self.name}/clipped"
        nodes = [self.made("QuantizeLinear", x, *names, y=integers)]
        if limits is not None:
            ends = [
                self.tensor(f"end{i}", np.array(end + zero, np.int8))
                for i, end in enumerate(limits)
            ]
            nodes.append(self.made("Clip", integers, *ends, y=clipped))
            integers = clipped
        return [*nodes, self.made("DequantizeLinear", integers, *names)]

    def _floats(
        self, scale: float, result: float, bits: int, mode: str, limits: tuple[int, int] | None
    ) -> Sequence[onnx.NodeProto]:
        """Return operators of floats, and of integers of 8 bits if the result has limits."""
        steps = [f"{self.name}/step{i}" for i in range(5)]
        factor = np.array(2.0**-bits, np.float32)
        nodes = [
            self.made(
                "Div",
                self.node.input[0],
                self.tensor("in", np.array(scale, np.float32)),
                y=steps[0],
            ),
            self.made("Round", steps[0], y=steps[1]),
            self.made("Mul", steps[1], self.tensor("factor", factor), y=steps[2]),
            self.made(_ROUNDINGS[mode][0], steps[2], y=steps[3]),
        ]
        scaled = self.tensor("out", np.array(result, np.float32))
        if limits is None or limits[1] - limits[0] >= _BYTE:
            if limits is not None:
                ends = [
                    self.tensor(f"end{i}", np.array(end, np.float32))
                    for i, end in enumerate(limits)
                ]
                nodes.append(self.made("Clip", steps[3], *ends, y=f"{self.name}/limited"))
                steps[3] = f"{self.name}/limited"
            return [*nodes, self.made("Mul", steps[3], scaled)]
        nodes.append(self.made("Mul", steps[3], scaled, y=steps[4]))
        return [*nodes, *self._rounded(steps[4], result, limits, signed=limits[0] < 0)]
