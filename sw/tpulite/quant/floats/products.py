"""Products of int8 weights by activations that are rounded to integers."""

from dataclasses import dataclass

import numpy as np

from tpulite.quant.floats.expansion import Written

_WHOLE, _REDUCED = 127, 64
"""Largest magnitudes of weights of 8 bits, and of 7, as ONNX Runtime's quantizer has them."""


@dataclass(frozen=True)
class Weights:
    """How float weights become int8."""

    per_channel: bool  #: Whether each output channel has a scale of its own.
    reduce_range: bool  #: Whether they have 7 bits, for CPUs whose sums of pairs saturate.

    @property
    def most(self) -> int:
        """Return the largest magnitude of a weight."""
        return _REDUCED if self.reduce_range else _WHOLE

    def rounded(self, weight: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """Return weights as int8, and the scales of the channels along an axis, float32."""
        most = self.most
        others = tuple(each for each in range(weight.ndim) if each != axis)
        ends = np.abs(weight).max(axis=others if self.per_channel else None, keepdims=True)
        scale = np.where(ends > 0, ends / most, 1).astype(np.float32)
        integers = np.clip(np.rint(weight / scale), -most, most).astype(np.int8)
        return integers, np.broadcast_to(scale.reshape(-1), weight.shape[axis : axis + 1])


@dataclass(frozen=True)
class Integers:
    """How floats become integers: names of constants, and the scale."""

    scale: str
    zero: str
    step: np.float32

    def round(self, written: Written, x: str, role: str) -> str:
        """Add QuantizeLinear; return the name of the integers."""
        return written.add("QuantizeLinear", [x, self.scale, self.zero], f"{role}/integers")


@dataclass(frozen=True)
class Product:
    """A product of activations, rounded to integers, by int8 weights; sums become floats again."""

    x: Integers
    weight: str  #: Name of int8 [inputs, outputs].
    scales: str  #: Name of float32 [outputs], the scales of the sums.

    @classmethod
    def by(
        cls, written: Written, x: Integers, weight: np.ndarray, role: str, rounding: Weights
    ) -> "Product":
        """Round weights, float32 [inputs, outputs]."""
        integers, scales = rounding.rounded(weight, axis=1)
        return cls(
            x,
            written.constant(f"{role}_weights", integers),
            written.constant(f"{role}_scales", scales * x.step),
        )

    def of(self, written: Written, x: str, role: str) -> str:
        """Multiply floats [rows, inputs]; return float32 [rows, outputs]."""
        return self.of_integers(written, self.x.round(written, x, role), role)

    def of_integers(self, written: Written, x: str, role: str) -> str:
        """Multiply integers [rows, inputs]; return float32 [rows, outputs]."""
        sums = written.add("MatMulInteger", [x, self.weight, self.x.zero], f"{role}/sums")
        return written.add("DequantizeLinear", [sums, self.scales], f"{role}/product", axis=1)
