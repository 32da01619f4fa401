"""How int32 sums become int8 activations, for all channels of a layer."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tpulite.arch.isa import RECORD
from tpulite.arch.numerics import INT8, Rounding
from tpulite.graph.layer_base import check_array, check_int8, check_integers

_RANGES = {
    field.name: field.range for field in RECORD.fields if field.name in ("multiplier", "shift")
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Requantization:
    """How int32 sums become int8 or int16: `tpulite.arch.numerics.requantize`, by channel or all.

    ValueError if an array has another dtype, rank or length, or a value does not fit a channel
    record.
    """

    #: Ndarray of int64, [C] or [1]. As channel records hold them.
    multiplier: np.ndarray
    shift: np.ndarray
    #: Ndarray of int32, [C] or [1]. Added to the sum, wrapping.
    bias: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int32))
    #: Rounding or ndarray of int64, [C]. How to round: all channels alike, or each in its own way.
    rounding: Rounding | np.ndarray = Rounding.TFLITE
    zero_point: int = 0  #: Added after scaling.
    #: Int or ndarray of int64, [C]. Clamp: of all channels alike, or of each.
    low: int | np.ndarray = INT8[0]
    high: int | np.ndarray = INT8[-1]
    bits: int = 8  #: Width of results: 8 or 16.

    def __post_init__(self) -> None:
        check_array("Requantization", "bias", self.bias, "int32", 1)
        for name, allowed in _RANGES.items():
            array = getattr(self, name)
            check_array("Requantization", name, array, "int64", 1)
            for value in (int(array.min()), int(array.max())):
                if value not in allowed:
                    raise ValueError(
                        f"Requantization: {name} must be {allowed[0]}..{allowed[-1]}, not {value}"
                    )
        lengths = {len(self.multiplier), len(self.shift), len(self.bias)}
        for name in ("low", "high"):
            if isinstance(bounds := getattr(self, name), np.ndarray):
                check_array("Requantization", name, bounds, "int64", 1)
                lengths.add(len(bounds))
            ends = {f"least {name}": int(np.min(bounds)), f"most {name}": int(np.max(bounds))}
            check_integers("Requantization", self.bits, **ends)
        if isinstance(self.rounding, np.ndarray):
            check_array("Requantization", "rounding", self.rounding, "int64", 1)
            lengths.add(len(self.rounding))
        if self.roundings - set(Rounding):
            raise ValueError(f"Requantization: rounding must be a rule, not {self.rounding}")
        if len(lengths - {1}) > 1:
            raise ValueError(f"Requantization: arrays must have one length, not {sorted(lengths)}")
        check_int8("Requantization", zero_point=self.zero_point)
        if np.any(self.low > self.high):
            raise ValueError(f"Requantization: low {self.low} must not be above high {self.high}")

    @property
    def channels(self) -> int:
        """Channels that the arrays speak of; 1 fits any number."""
        each = 1 if isinstance(self.rounding, Rounding) else len(self.rounding)
        bounds = np.size(self.low), np.size(self.high)
        return max(len(self.multiplier), len(self.shift), len(self.bias), each, *bounds)

    @cached_property
    def uniform(self) -> bool:
        """Whether all channels have the same multiplier, shift, rounding and clamp."""
        others = map(np.atleast_1d, (self.rounding, self.low, self.high))
        arrays = (self.multiplier, self.shift, *others)
        return all((array == array[0]).all() for array in arrays)

    @property
    def roundings(self) -> set[int]:
        """All rules that occur."""
        return set(np.ravel(self.rounding).tolist())

    def of(self, channels: np.ndarray | slice) -> "Requantization":
        """Return how some channels are requantized: a mask, indices, or a slice."""

        def select(array: Any) -> Any:
            return array[channels] if np.size(array) > 1 else array

        return replace(
            self,
            multiplier=select(self.multiplier),
            shift=select(self.shift),
            bias=select(self.bias),
            rounding=select(self.rounding),
            low=select(self.low),
            high=select(self.high),
        )


IDENTITY = Requantization(
    multiplier=np.array([1 << 30]), shift=np.array([1]), rounding=Rounding.AWAY
)
"""A requantization that changes nothing but int32 to int8."""


def addends(words: np.ndarray) -> np.ndarray:
    """Return numbers of 31 fractional bits as they are added for a softmax: with 19."""
    return (words + (1 << 11)) >> 12
