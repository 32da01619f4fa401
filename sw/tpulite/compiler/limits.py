"""What must not be on chip, or together, or uncut: it follows from what takes too many rows."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from tpulite.arch.config import Config
from tpulite.compiler.cuts import Cut, CutSearch
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place.placement import Placement
from tpulite.compiler.schedule.online import Shortage
from tpulite.graph.layers import LayerGraph

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Restrictions of a compilation.

    Parameters
    ----------
    outside : frozenset of str
        Images that must not stay on chip.
    refused : frozenset of Group
        Groups that do not fit.
    part_by_part : bool
        Whether rows are so few that parts of the program are packed one by one.
    cuts : mapping of int to Cut
        Layers that do not fit as they cut themselves, and how they are cut.
    """

    outside: frozenset[str] = frozenset()
    refused: frozenset[Group] = frozenset()
    part_by_part: bool = False
    cuts: Mapping[int, Cut] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        """Something that equal limits have, and no others."""
        return self.outside, self.refused, self.part_by_part, frozenset(self.cuts.items())

    @property
    def shares(self) -> dict[int, float]:
        """By layer, part of their usual size that its strips may have."""
        return {index: cut.share for index, cut in self.cuts.items()}

    def cut(self, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        """Return the groups, layers alone cut as they must be."""
        known = {cut.group.layers: cut.group for cut in self.cuts.values()}
        return tuple(known.get(each.layers, each) for each in groups)

    def after(
        self,
        shortage: Shortage,
        layers: LayerGraph,
        groups: tuple[Group, ...],
        placement: Placement,
        tiling: Tiling,
        config: Config,
        options: Options,
    ) -> "Limits":
        """Return what must be respected, too, because a buffer has no place.

        An image leaves the buffer; a group gives way to its layers; of a layer alone, the largest
        image beside it leaves. If there is none, each layer that is alone is cut as finely as it
        must be, and those around it have nothing on chip.

        Raises
        ------
        ValueError
            If nothing is left to give up.
        """
        buffer = shortage.buffer
        users = (op for op in tiling.ops if any(r.buffer is buffer for r in op.rows.values()))
        index = next(users).layer
        group = next(each for each in groups if index in each.layers)
        if buffer.name in layers.activations and buffer.name not in self.outside:
            return replace(self, outside=self.outside | {buffer.name})
        if not group.alone:
            return replace(self, refused=self.refused | {group})
        live = placement.live[index] - placement.pinned
        if self.part_by_part or not live:
            away = {name for name, store in placement.stores.items() if not store.resident}
            outside = self.outside | live | away
            alone = {each.layers.start for each in groups if each.alone} - set(self.cuts)
            settled = {i for i in alone if placement.live[i] <= outside | placement.pinned}
            finer = replace(self, outside=outside, part_by_part=True)
            for each in sorted(settled | {index}):
                finer = finer._finer(each, layers, groups, config, options)
            if finer == self:
                raise self._refusal(layers, index, str(shortage), config)
            return finer
        largest = max(live, key=lambda name: (placement.stores[name].rows, name))
        return replace(self, outside=self.outside | {largest})

    def _finer(
        self,
        index: int,
        layers: LayerGraph,
        groups: tuple[Group, ...],
        config: Config,
        options: Options,
    ) -> "Limits":
        """Return the same with a layer cut as it must be."""
        search = CutSearch(layers, self.cut(groups), index, config, options, self.outside)
        if search.uncut:
            return self
        cut = search.best()
        if cut is None:
            raise self._refusal(layers, index, search.needs(), config)
        return replace(self, cuts={**self.cuts, index: cut})

    def _refusal(self, layers: LayerGraph, index: int, reason: str, config: Config) -> ValueError:
        return ValueError(
            f"Network {layers.name!r} does not fit the unified buffer of {config.ub_rows} rows "
            f"({config.ub_rows * config.row_bytes} bytes), even cut into slices: "
            f"layer {layers.layers[index].name!r}: {reason}"
        )
