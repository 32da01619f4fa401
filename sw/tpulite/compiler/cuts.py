"""How a layer is cut that does not fit as it cuts itself: strips, columns, channel blocks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.geometry.extents import activation_rows
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import column_grain, part_grain
from tpulite.compiler.lower.tile_groups import Tiler
from tpulite.compiler.ops import Op, Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.placement import Placement, fixed_lines, place_activations
from tpulite.compiler.schedule.fit import schedule_by_parts
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.uses import Uses
from tpulite.graph.layers import LayerGraph

_SHARES = (1.0, 0.4, 0.15, 0.05, 0.01)
"""Parts of their usual size that strips may have; the smallest makes strips of one row."""

_FINER = 2
"""Cuts into so many times the parts of the first one that fits are tried, too."""

_FIRST = 200
"""Commands of a layer that are looked at first, as most cuts that do not fit fail early."""

_COMMAND_WEIGHT = 16
"""Rows moved that a command counts as in the choice of a cut. Not timing: short commands must be
compiled, too."""


@dataclass(frozen=True)
class Cut:
    """How a layer is cut."""

    #: The layer, its columns and channels, and whether its constants are loaded for each command.
    group: Group
    share: float  #: Part of their usual size that its strips may have.


class CutSearch:
    """Ways to cut a layer, judged on its own, for one image of a batch, beside what stays on chip.

    Each cut is judged by the buffers of its commands, packed as well as can be.

    Parameters
    ----------
    groups : tuple of Group
        All layers, as far as it is known how they are cut; this one is alone.
    index : int
        Index of the layer.
    outside : frozenset of str
        Images that must not stay on chip.
    """

    def __init__(
        self,
        layers: LayerGraph,
        groups: tuple[Group, ...],
        index: int,
        config: Config,
        options: Options,
        outside: frozenset[str] = frozenset(),
    ) -> None:
        self._others = groups
        self._layers, self._index, self._config, self._options = layers, index, config, options
        self._outside = outside
        self._placements: dict[Group, Placement] = {}
        layer = layers.layers[index]
        alone = Group(range(index, index + 1))
        live = self._placement(alone).live[index] - {*layer.inputs, layer.output}
        self._beside = sum(
            options.batch * activation_rows(layers.activations[n], config) for n in live
        )

    @property
    def uncut(self) -> bool:
        """Whether the layer fits as it cuts itself."""
        return self._fits(Cut(Group(range(self._index, self._index + 1)), 1.0))

    def best(self) -> Cut | None:
        """Return the cheapest of the cuts into few parts that fit; None if none does."""
        found: list[Group] = []
        best: Cut | None = None
        least = None
        for group in self._groups():
            parts = group.columns * group.channels
            if found and parts > _FINER * found[0].columns * found[0].channels:
                break
            if replace(group, reloaded=frozenset()) in found:
                continue
            cut = self._coarsest(group)
            if cut is not None:
                found.append(group)
                cost = self._cost(cut, least)
                if least is None or cost < least:
                    best, least = cut, cost
        return best

    def _groups(self) -> list[Group]:
        """Return ways to cut the layer, those into few parts first."""
        layer, config = self._layers.layers[self._index], self._config
        _, width, channels = self._layers.activations[layer.output].shape
        columns, blocks = 1, 1
        if layer.sliceable(1) and self._rows_begin_at_beats():
            columns = -(-width // part_grain(layer, config))
        if layer.channels_apart:
            blocks = -(-channels // config.array_size)
        pairs = product(_powers(blocks), _powers(columns))
        members = range(self._index, self._index + 1)
        return [
            Group(members, 0, columns, reloaded=reloaded, channels=channels)
            for channels, columns in sorted(pairs, key=lambda pair: (pair[0] * pair[1], pair))
            for reloaded in (frozenset[int](), frozenset(members))
        ]

    def _coarsest(self, group: Group) -> Cut | None:
        """Return the largest strips that fit; None if not even the smallest do."""
        if not self._starts(Cut(group, _SHARES[-1])):
            return None
        cuts = (Cut(group, share) for share in _SHARES)
        return next((cut for cut in cuts if self._fits(cut)), None)

    def _rows_begin_at_beats(self) -> bool:
        """Return whether columns of all images can be moved: each row of an image is some beats."""
        layer, grain = self._layers.layers[self._index], column_grain(self._config)
        fixed = fixed_lines(self._layers).intersection((*layer.inputs, layer.output))
        shapes = (self._layers.activations[name].shape for name in fixed)
        return all(height == 1 or width % grain == 0 for height, width, _ in shapes)

    def _fits(self, cut: Cut) -> bool:
        """Return whether the commands of the layer find places."""
        return self._starts(cut) and self._finds_places(self._ops(cut))

    def _starts(self, cut: Cut) -> bool:
        """Return whether the first commands find places, where most columns are read."""
        return self._finds_places(islice(self._ops(cut, widest=True), _FIRST))

    def _finds_places(self, ops: Iterable[Op]) -> bool:
        tiling = self._tiling(ops)
        if Uses(tiling, self._config).bound > self._config.ub_rows - tiling.first_row:
            return False
        return not isinstance(schedule_by_parts(tiling, self._config, lead=0), Shortage)

    def _cost(self, cut: Cut, most: int | None) -> int:
        """Return rows that are moved, and what commands count as; or anything above ``most``."""
        cost = 0
        for op in self._ops(cut):
            cost += _COMMAND_WEIGHT
            if op.opcode in (Opcode.LOAD, Opcode.STORE):
                cost += op.fields["lines"] * op.fields["rows"]
            if most is not None and cost > most:
                break
        return cost

    def needs(self) -> str:
        """Say what the finest cut must have in the buffer at one time."""
        cut = Cut(self._groups()[-1], _SHARES[-1])
        starts = self._starts(cut)
        ops = self._ops(cut) if starts else islice(self._ops(cut, widest=True), _FIRST)
        fullest = Uses(self._tiling(ops), self._config).fullest()
        bound, row_bytes = sum(buffer.rows for buffer in fullest), self._config.row_bytes
        each = ", ".join(f"{buffer.rows} for {buffer.name!r}" for buffer in fullest)
        beside = (
            f", besides {self._beside} rows of activations that must stay" if self._beside else ""
        )
        return (
            f"even its smallest tile needs {bound} rows ({bound * row_bytes} bytes) at the "
            f"peak{beside}: {each}"
        )

    def _ops(self, cut: Cut, *, widest: bool = False) -> Iterator[Op]:
        tiler = Tiler(
            self._layers,
            self._placement(cut.group),
            ConstantPool(),
            self._config,
            replace(self._options, batch=1),
            {self._index: cut.share},
        )
        return tiler.group(cut.group, widest=widest)

    def _tiling(self, ops: Iterable[Op]) -> Tiling:
        return Tiling(tuple(ops), (), (), 0, self._beside)

    def _placement(self, group: Group) -> Placement:
        """Return where images are: into how many parts the layer is cut does not matter."""
        cut = replace(group, columns=min(group.columns, 2), channels=min(group.channels, 2))
        if cut not in self._placements:
            groups = tuple(cut if self._index in x.layers else x for x in self._others)
            self._placements[cut] = place_activations(
                self._layers,
                groups,
                self._config,
                self._options,
                pool=ConstantPool(),
                outside=self._outside,
            )
        return self._placements[cut]


def _powers(most: int) -> list[int]:
    """Return powers of two below a number, and the number."""
    return [*(1 << i for i in range((most - 1).bit_length())), most]
