"""What a network answers, in words and figures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tpulite.graph.graph import Tensor

_TOP = 5
"""Classes that are told."""

_FEW = 16
"""Values that are told one by one."""


@dataclass(frozen=True, eq=False)
class Answer:
    """An output of one input."""

    tensor: Tensor  #: The output.
    values: np.ndarray  #: Its values as real numbers.
    names: Sequence[str] = ()  #: Names of its classes, if there are any.
    #: How many of its values are classes, the first ones; all of them by default.
    classes: int | None = None

    @property
    def top(self) -> list[int]:
        """The most likely classes, the first of equal ones first; none of feature maps."""
        if self.classes is None and max(self.tensor.shape, default=1) != self.values.size:
            return []
        values = self.values.reshape(-1)[: self.classes]
        return np.argsort(-values, kind="stable")[:_TOP].tolist()

    def lines(self) -> list[str]:
        """Return the most likely classes if they have names, else the class, shape and values."""
        flat = self.values.reshape(-1)
        if self.names:
            return [f"{flat[i]:8.4g}  {self.names[i]}" for i in self.top]
        real = ", dequantized" * self._dequantized
        head = f"{self.tensor.name}: {self.tensor.dtype} {list(self.tensor.shape)}{real}"
        if not flat.size:
            return [head]
        return [*self._class_words(), f"{head}{self._described(flat)}"]

    @property
    def _dequantized(self) -> bool:
        """Whether the values are others than the integers of the tensor."""
        q = self.tensor.quantization
        integers = np.issubdtype(self.tensor.dtype, np.integer)
        return integers and q is not None and bool(np.any(q.scale != 1) or np.any(q.zero_point))

    def _class_words(self) -> list[str]:
        """Return the class of each row, of which a file with a fixed batch has several."""
        if self.classes is None:
            return []
        rows = len(self.values) if self.values.ndim > 1 else 1
        found = self.values.reshape(rows, -1)[:, : self.classes].argmax(axis=1)
        return [f"class{'es' * (rows > 1)} {' '.join(map(str, found))} of {self.classes}"]

    def _described(self, flat: np.ndarray) -> str:
        """Return few values one by one, of many the range and the largest."""
        if flat.size <= _FEW:
            return f": {' '.join(f'{x:.3g}' for x in flat)}"
        text = f", {flat.min():.4g} to {flat.max():.4g}"
        if self.top:
            return f"{text}, largest {', '.join(f'{flat[i]:.4g} at {i}' for i in self.top[:3])}"
        return f"{text}, mean {flat.mean():.4g}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        flat = self.values.reshape(-1)
        named = [{"name": self.names[i]} if self.names else {} for i in self.top]
        return {
            "output": self.tensor.name,
            "dtype": self.tensor.dtype,
            "shape": list(self.tensor.shape),
            "top": [
                {"class": i, "value": float(flat[i])} | name
                for i, name in zip(self.top, named, strict=True)
            ],
        }


def answer(
    tensor: Tensor, value: np.ndarray, names: Sequence[str] = (), classes: int | None = None
) -> Answer:
    """Return an answer; integers with a scale become the real numbers that they mean.

    A tensor whose shape only the run knows has that of its value.
    """
    if tensor.dtype == "object":
        tensor = replace(tensor, shape=value.shape, dtype=value.dtype.name)
    q = tensor.quantization
    integers = np.issubdtype(tensor.dtype, np.integer)
    real = q.real(value) if q is not None and integers else value.astype(np.float64)
    return Answer(tensor, real.reshape(tensor.shape), names, classes)
