"""What is known not to fit: each attempt that fails says what to do otherwise in the next one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tpulite.arch.config import Config
from tpulite.compiler.grouping.group import Group
from tpulite.compiler.ops import Tiling
from tpulite.compiler.scheduling.online import DoesNotFitError
from tpulite.compiler.tiling.place import Placement
from tpulite.graph.layers import LayerGraph

__all__ = ["Limits"]

_SMALLER = 0.6
"""Strips of a layer that find no place become so much smaller."""

_SMALLEST = 0.1
"""If they still find none at this part of their size, an image must leave the buffer."""


@dataclass(frozen=True)
class Limits:
    """Restrictions of a compilation.

    Parameters
    ----------
    outside : frozenset of str
        Images that must not stay on chip.
    refused : frozenset of Group
        Groups that do not fit.
    shares : mapping of int to float
        By layer, part of their usual size that its strips may have.
    """

    outside: frozenset[str] = frozenset()
    refused: frozenset[Group] = frozenset()
    shares: Mapping[int, float] = field(default_factory=dict)

    def after(
        self,
        error: DoesNotFitError,
        layers: LayerGraph,
        groups: tuple[Group, ...],
        placement: Placement,
        tiling: Tiling,
        config: Config,
    ) -> "Limits":
        """Return what the next attempt should respect, too.

        Raises
        ------
        ValueError
            If nothing is left to try.
        """
        users = (op for op in tiling.ops if any(r.buffer is error.buffer for r in op.rows.values()))
        index = next(users).layer
        group = next(each for each in groups if index in each.layers)
        if error.name in layers.images and error.name not in self.outside:
            return replace(self, outside=self.outside | {error.name})
        if group.slices:
            return replace(self, refused=self.refused | {group})
        share = self.shares.get(index, 1.0) * _SMALLER
        if share >= _SMALLEST:
            return replace(self, shares={**self.shares, index: share})
        live = placement.live[index] - placement.pinned
        if not live:
            raise ValueError(
                f"Network {layers.name!r} does not fit the unified buffer of {config.ub_rows} rows "
                f"({config.ub_rows * config.row_bytes} bytes), even cut into slices: "
                f"layer {layers.layers[index].name!r}: {error}"
            ) from error
        largest = max(live, key=lambda name: (placement.stores[name].rows, name))
        shares = {i: part for i, part in self.shares.items() if i != index}
        return replace(self, outside=self.outside | {largest}, shares=shares)
