"""What quantization costs: errors of tensors against the network of floats."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = ["BEST", "Quality", "Sums", "TensorError", "measure_outputs", "same_places"]

BEST = 120.0
"""Signal to noise of a tensor without noise, in dB: more than float32 can tell."""


@dataclass(frozen=True)
class TensorError:
    """A tensor of the quantized network against that of floats.

    Parameters
    ----------
    tensor, operator : str
        Its name in the file, and the operator that computes it.
    decibels : float
        Signal to noise: 6 dB are a bit.
    lost : float
        How many dB less that is than that of the operator's worst input.
    largest, range : float
        Largest difference, and largest magnitude of the floats.
    """

    tensor: str
    operator: str
    decibels: float
    lost: float
    largest: float
    range: float


@dataclass(frozen=True)
class Quality:
    """What quantization costs.

    Parameters
    ----------
    tensors : tuple of TensorError
        All that both networks have, in the order of the file.
    samples : int
        How many samples were run.
    agreement : float, optional
        Share of the samples of which the largest number of the first output is in the same place;
        None if that output is a single number.
    """

    tensors: tuple[TensorError, ...]
    samples: int
    agreement: float | None

    @property
    def worst(self) -> list[TensorError]:
        """Tensors by how much signal to noise is lost in computing them, the most first."""
        return sorted(self.tensors, key=lambda each: -each.lost)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)


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


def measure_outputs(pairs: Iterable[Sequence[tuple[str, np.ndarray, np.ndarray]]]) -> Quality:
    """Compare results of two networks.

    Parameters
    ----------
    pairs : iterable of sequence of (str, ndarray, ndarray)
        For each sample the outputs: name, floats, and what the quantized network found, as floats.
    """
    sums: dict[str, Sums] = defaultdict(Sums)
    places: list[bool] = []
    count = 0
    for outputs in pairs:
        for name, wanted, found in outputs:
            sums[name].add(wanted, found)
        places += same_places(*outputs[0][1:])
        count += 1
    errors = (
        TensorError(name, "output", each.decibels, 0.0, each.largest, each.range)
        for name, each in sums.items()
    )
    return Quality(tuple(errors), count, sum(places) / len(places) if places else None)


def same_places(wanted: np.ndarray, found: np.ndarray) -> list[bool]:
    """Tell for each row whether its largest number is in the same place."""
    if not wanted.ndim or wanted.shape[-1] < 2 or wanted.shape != found.shape:
        return []
    same = wanted.argmax(axis=-1) == found.argmax(axis=-1)
    return np.atleast_1d(same).ravel().tolist()
