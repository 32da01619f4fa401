"""What quantization costs: errors of tensors against the network of floats."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

import numpy as np

BEST = 120.0
"""Signal to noise of a tensor without noise, in dB: more than float32 can tell."""


@dataclass(frozen=True)
class TensorError:
    """A tensor of the quantized network against that of floats."""

    #: Its name in the file, and the operator that computes it.
    tensor: str
    operator: str
    decibels: float  #: Signal to noise: 6 dB are a bit.
    lost: float  #: How many dB less that is than that of the operator's worst input.
    #: Largest difference, and largest magnitude of the floats.
    largest: float
    range: float


@dataclass(frozen=True)
class OutputError:
    """An output of the quantized network against that of floats."""

    output: str  #: Its name in the file.
    #: Of the angle between all its numbers and the floats; of integers the share that is equal.
    cosine: float
    decibels: float  #: Signal to noise.
    #: Share of the rows whose largest number is in the same place; None if it has no classes.
    agreement: float | None


@dataclass(frozen=True)
class Quality:
    """What quantization costs."""

    tensors: tuple[TensorError, ...]  #: All that both networks have, in the order of the file.
    samples: int  #: How many samples were run.
    outputs: tuple[OutputError, ...]  #: All outputs, in the order of the file.
    floats: tuple[str, ...] = ()  #: Tensors that were left in floats because 8 bits lost too much.
    int8: tuple[str, ...] = ()  #: Products whose weights kept 8 bits because 4 lost too much.
    recurrent: tuple[str, ...] = ()  #: Recurrent nodes that stay whole, each with the reason.

    @property
    def agreement(self) -> float | None:
        """Top-1 agreement of the first output that has classes."""
        return next((x.agreement for x in self.outputs if x.agreement is not None), None)

    @property
    def worst_output(self) -> OutputError | None:
        """The output with the least cosine."""
        return min(self.outputs, key=lambda each: each.cosine, default=None)

    @property
    def worst(self) -> list[TensorError]:
        """Tensors by how much signal to noise is lost in computing them, the most first."""
        return sorted(self.tensors, key=lambda each: -each.lost)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self) | {"agreement": self.agreement}


@dataclass
class Sums:
    """Sums over the elements of a tensor and its errors, sample by sample."""

    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    range: float = 0.0

    def add(self, real: np.ndarray, found: np.ndarray) -> None:
        """Add the floats, and what the quantized network has found."""
        real, difference = real.astype(np.float64), found.astype(np.float64) - real
        self.signal += float(np.square(real).sum())
        self.noise += float(np.square(difference).sum())
        if real.size:
            self.largest = max(self.largest, float(np.abs(difference).max()))
            self.range = max(self.range, float(np.abs(real).max()))

    @property
    def decibels(self) -> float:
        """Signal to noise."""
        if self.noise == 0:
            return BEST
        return min(BEST, 10 * float(np.log10(max(self.signal, 1e-300) / self.noise)))


@dataclass
class OutputSums:
    """Sums over the elements of an output, sample by sample."""

    sums: Sums = field(default_factory=Sums)
    product: float = 0.0
    found: float = 0.0
    equal: int = 0
    count: int = 0
    integers: bool = False
    undefined: bool = False  #: Whether a float is NaN.
    places: list[bool] = field(default_factory=list)

    def add(self, wanted: np.ndarray, found: np.ndarray, *, classes: bool) -> None:
        """Add an output of both networks; rows of numbers may be those of classes."""
        self.integers = wanted.dtype.kind != "f"
        self.undefined |= not self.integers and bool(np.isnan(wanted).any())
        self.equal += int((wanted == found).sum())
        self.count += wanted.size
        self.sums.add(wanted, found)
        self.product += float((wanted.astype(np.float64) * found.astype(np.float64)).sum())
        self.found += float(np.square(found.astype(np.float64)).sum())
        if classes:
            self.places += _same_places(wanted, found)

    def result(self, name: str) -> OutputError:
        """Return the error of the output; ValueError if it is NaN in floats."""
        if self.undefined:
            raise ValueError(f"output {name!r} is NaN before quantization, for these samples")
        agreement = sum(self.places) / len(self.places) if self.places else None
        return OutputError(name, self._cosine, self.sums.decibels, agreement)

    @property
    def _cosine(self) -> float:
        if self.integers:
            return self.equal / max(1, self.count)
        if self.sums.noise == 0:
            return 1.0
        both = self.sums.signal**0.5 * self.found**0.5
        return self.product / both if both and isfinite(both) else 0.0


def measure_outputs(pairs: Iterable[Sequence[tuple[str, np.ndarray, np.ndarray]]]) -> Quality:
    """Compare results of two networks.

    Parameters
    ----------
    pairs : iterable of sequence of (str, ndarray, ndarray)
        For each sample the outputs: name, floats, and what the quantized network found, as floats.
    """
    sums: dict[str, OutputSums] = defaultdict(OutputSums)
    count = 0
    for outputs in pairs:
        for name, wanted, found in outputs:
            sums[name].add(wanted, found, classes=wanted.ndim == 2)
        count += 1
    errors = (
        TensorError(name, "output", x.sums.decibels, 0.0, x.sums.largest, x.sums.range)
        for name, x in sums.items()
    )
    return Quality(tuple(errors), count, tuple(x.result(name) for name, x in sums.items()))


def _same_places(wanted: np.ndarray, found: np.ndarray) -> list[bool]:
    """Tell for each row whether its largest number is in the same place."""
    if not wanted.ndim or wanted.shape[-1] < 2 or wanted.shape != found.shape:
        return []
    same = wanted.argmax(axis=-1) == found.argmax(axis=-1)
    return np.atleast_1d(same).ravel().tolist()
