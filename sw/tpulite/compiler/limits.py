"""What is known not to fit: each attempt that fails says what to do otherwise in the next one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tpulite.arch.config import Config
from tpulite.compiler.cuts import find_cut
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place.placement import Placement
from tpulite.compiler.plan.space import SMALLEST_SHARE
from tpulite.compiler.schedule.online import DoesNotFitError
from tpulite.graph.layers import LayerGraph

__all__ = ["Limits"]

_SMALLER = 0.6
"""Strips of a layer that find no place become so much smaller."""


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
    part_by_part : bool
        Whether rows are so few that parts of the program are packed one by one.
    cuts : mapping of int to Group
        Layers that do not fit as they cut themselves, and how they are cut.
    """

    outside: frozenset[str] = frozenset()
    refused: frozenset[Group] = frozenset()
    shares: Mapping[int, float] = field(default_factory=dict)
    part_by_part: bool = False
    cuts: Mapping[int, Group] = field(default_factory=dict)

    def cut(self, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        """Return the groups, layers alone cut as they must be."""
        if not self.cuts:
            return groups
        return tuple(
            self.cuts.get(each.layers.start, each) if len(each.layers) == 1 else each
            for each in groups
        )

    def after(
        self,
        error: DoesNotFitError,
        layers: LayerGraph,
        groups: tuple[Group, ...],
        placement: Placement,
        tiling: Tiling,
        config: Config,
        options: Options,
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
        if error.name in layers.activations and error.name not in self.outside:
            return replace(self, outside=self.outside | {error.name})
        if group.slices:
            return replace(self, refused=self.refused | {group})
        live = placement.live[index] - placement.pinned
        if self.part_by_part:
            away = {name for name, store in placement.stores.items() if not store.resident}
            outside = self.outside | live | away
            alone = {each.layers.start for each in groups if not each.slices} - set(self.cuts)
            settled = {i for i in alone if placement.live[i] <= outside | placement.pinned}
            finer = replace(self, outside=outside)
            for each in sorted(settled | {index}):
                finer = finer._finer(each, layers, groups, config, options)
            if finer == self:
                raise self._refusal(layers, index, error, config)
            return finer
        share = self.shares.get(index, 1.0) * _SMALLER
        if share >= SMALLEST_SHARE:
            return replace(self, shares={**self.shares, index: share})
        if not live:
            return replace(self, part_by_part=True)
        largest = max(live, key=lambda name: (placement.stores[name].rows, name))
        shares = {i: part for i, part in self.shares.items() if i != index}
        return replace(self, outside=self.outside | {largest}, shares=shares)

    def _finer(
        self,
        index: int,
        layers: LayerGraph,
        groups: tuple[Group, ...],
        config: Config,
        options: Options,
    ) -> "Limits":
        """Return the same with a layer cut as it must be."""
        known, share = self.cut(groups), self.shares.get(index, 1.0)
        try:
            cut = find_cut(layers, known, index, config, options, outside=self.outside, share=share)
        except ValueError as error:
            raise self._refusal(layers, index, error, config) from error
        if cut is None:
            return self
        cuts, shares = {**self.cuts, index: cut.group}, {**self.shares, index: cut.share}
        return replace(self, cuts=cuts, shares=shares)

    def _refusal(
        self, layers: LayerGraph, index: int, reason: ValueError, config: Config
    ) -> ValueError:
        return ValueError(
            f"Network {layers.name!r} does not fit the unified buffer of {config.ub_rows} rows "
            f"({config.ub_rows * config.row_bytes} bytes), even cut into slices: "
            f"layer {layers.layers[index].name!r}: {reason}"
        )
