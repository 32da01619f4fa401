"""Layer groups: runs of layers that go through their images slice by slice."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """Consecutive layers and how their images are cut."""

    layers: range  #: Indices of the layers.
    #: Parts that the height of the last layer's output is cut into; 0 for a single layer that cuts
    #: itself, if its images are not on chip, and for two layers that run channel block by channel
    #: block.
    slices: int = 0
    columns: int = 1  #: Parts that its width is cut into, before the height.
    #: Whether rows that two slices need are kept instead of computed, or loaded, again.
    rolling: bool = False
    #: Layers whose weights do not stay for all slices: each slice loads them again. A single layer
    #: that cuts itself loads them for each command.
    reloaded: frozenset[int] = frozenset()
    #: Parts that the channel blocks of a single layer's output are cut into, one after the other.
    channels: int = 1
    #: Whether layers of the vector path run a step behind what they read, and before what reads
    #: them, as a softmax always does.
    pipelined: bool = False

    @property
    def by_blocks(self) -> bool:
        """Whether it is a convolution and the depthwise one that reads it, block by block."""
        return not self.slices and len(self.layers) > 1

    @property
    def alone(self) -> bool:
        """Whether it is a single layer that cuts itself."""
        return not self.slices and len(self.layers) == 1

    @property
    def finer(self) -> bool:
        """Whether it is a single layer that cuts itself, but finer than it would."""
        return not self.slices and (self.columns > 1 or self.channels > 1 or bool(self.reloaded))


@dataclass(frozen=True)
class StepRows:
    """Rows of an image in one step of a group."""

    new: range  #: Those that are computed or loaded in this step.
    #: Those that must lie together in the buffer: ``new``, and what was kept from the step before.
    live: range


Step = Mapping[str, StepRows]
"""Rows of every image that a group reads or writes, by name."""
