"""Inputs as a file has them, before anybody says what is open."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.frontend.given_shapes import Open

AXES = ("batch", "height", "width", "channels")
"""What bound programs call the extents of an activation, in their order."""


@dataclass(frozen=True)
class FileInput:
    """An input of a file that is an image: four extents."""

    extents: Open  #: In the order of the file; an open one is its name, which may be empty.
    axes: tuple[str, ...]  #: What each of them is.
    #: Channels of the first operator's parameters, where the file leaves them open.
    weights: int | None = None

    def known(self, dims: Mapping[str, int]) -> dict[str, int]:
        """Return the extents that the file or ``dims`` (by their names in the file) fix."""
        pairs = zip(self.axes, self.extents, strict=True)
        found = {axis: dims.get(each) if isinstance(each, str) else each for axis, each in pairs}
        if found["channels"] is None:
            found["channels"] = self.weights
        return {axis: extent for axis, extent in found.items() if extent is not None}

    @property
    def ranged(self) -> bool:
        """Whether the file leaves open more than the batch."""
        pairs = zip(self.axes, self.extents, strict=True)
        return any(isinstance(each, str) and axis != "batch" for axis, each in pairs)
