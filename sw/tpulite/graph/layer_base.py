"""What all integer layers have: names of activations, and the shapes that follow from them."""

from dataclasses import dataclass
from typing import Self

import numpy as np


@dataclass(frozen=True)
class Activation:
    """Shape [height, width, channels] and dtype of an activation: int8, or int32 for raw sums."""

    shape: tuple[int, int, int]
    dtype: str = "int8"

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise ValueError(f"An activation must have three positive extents, not {self.shape}")
        if self.dtype not in ("int8", "int32"):
            raise ValueError(f"An activation must be int8 or int32, not {self.dtype}")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer: its name (unique), the activations that it reads, and the one that it computes.

    Constructors of layers raise ValueError if a value or an array is not what they say.
    """

    name: str
    inputs: tuple[str, ...]
    output: str

    operands = 1
    """Images that the layer reads; 0 means one or more."""

    @property
    def title(self) -> str:
        """How error messages name the layer."""
        return f"Layer {self.name!r}"

    def __post_init__(self) -> None:
        if not self.inputs or (self.operands and len(self.inputs) != self.operands):
            raise ValueError(
                f"{self.title} must read {self.operands or 'some'} activations, "
                f"not {len(self.inputs)}"
            )

    def _infer(self, *activations: Activation) -> Activation:
        """Return what the layer computes of such activations; raise ValueError if it cannot."""
        raise NotImplementedError

    def of_channels(self, some: np.ndarray | slice) -> Self:
        """Return the layer that computes some channels: a mask, indices, or a slice.

        A layer without parameters of channels is returned as it is.
        """
        return self

    def check(self, activations: tuple[Activation, ...], output: Activation) -> None:
        """Check that the layer computes ``output`` of ``activations``.

        ValueError if it does not.
        """
        for name, activation in zip(self.inputs, activations, strict=True):
            if activation.dtype != "int8":
                raise ValueError(f"{self.title} needs int8, but {name!r} is {activation.dtype}")
        if (found := self._infer(*activations)) != output:
            raise ValueError(f"{self.title} computes {found}, but {self.output!r} is {output}")
