"""An attempt to compile a network: what stages make of it as long as the same limits hold."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from tpulite.compiler.document_groups import document_groups
from tpulite.compiler.encode.assemble import assemble
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.search import group_layers
from tpulite.compiler.judge import Plans
from tpulite.compiler.known import Known
from tpulite.compiler.limits import Limits
from tpulite.compiler.lower.tile_groups import tile_groups
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.placement import Placement, place_activations
from tpulite.compiler.rewritten import Rewritten
from tpulite.compiler.schedule.addresses import encode
from tpulite.compiler.schedule.allocate import Allocation
from tpulite.compiler.schedule.fit import fit
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.scheduled import Schedule
from tpulite.program import Program

__all__ = ["Attempt", "Fitted"]

T = TypeVar("T")


@dataclass(frozen=True)
class Fitted:
    """A network that is lowered.

    Parameters
    ----------
    placement : Placement
        Where its images are.
    tiling : Tiling
        Its commands.
    pool : ConstantPool
        Its constants.
    places : tuple of Schedule and Allocation, or Shortage
        Their order and the rows of buffers; or what finds no place.
    """

    placement: Placement
    tiling: Tiling
    pool: ConstantPool
    places: tuple[Schedule, Allocation] | Shortage


@dataclass(frozen=True)
class Attempt:
    """Stages of a compilation; none of them sees how fast the machine is.

    Parameters
    ----------
    network : Rewritten
        The network.
    packed : ConstantPool
        Knows what has been packed.
    options : Options
        Choices of the compilation; its batch are the images that go together.
    limits : Limits
        What is known not to fit.
    taken : int
        Rows of the unified buffer in which constants stay.
    known : Known
        What has been made before.
    tell : callable
        Called with a line of text at every step that is made.
    """

    network: Rewritten
    packed: ConstantPool
    options: Options
    limits: Limits
    taken: int
    known: Known
    tell: Callable[[str], None]

    def groups(self) -> tuple[Group, ...]:
        """Return groups by their estimated costs, layers alone cut as they must be."""
        return self._once(self._groups, "groups")

    def placement(self, groups: tuple[Group, ...]) -> Placement:
        """Return where images are."""
        return self._once(lambda: self._place(groups)[0], "placement", groups)

    def fitted(self, groups: tuple[Group, ...], plans: Plans) -> Fitted:
        """Return commands and their places."""
        return self._once(lambda: self._fitted(groups, plans), "fitted", groups, plans.key)

    def harder(self, shortage: Shortage, groups: tuple[Group, ...], plans: Plans) -> Limits:
        """Return what must be respected, too, because of a shortage of what was fitted."""
        made, layers = self.fitted(groups, plans), self.network.layers
        after, config, options = self.limits.after, self.known.config, self.options
        return self._once(
            lambda: after(shortage, layers, groups, made.placement, made.tiling, config, options),
            "harder",
            groups,
            plans.key,
        )

    def program(self, groups: tuple[Group, ...], plans: Plans) -> Program:
        """Return the program, which has a place for everything; its machine lacks its speed."""
        return self._once(lambda: self._program(groups, plans), "program", groups, plans.key)

    def _once(self, make: Callable[[], T], stage: str, *others: Hashable) -> T:
        return self.known.once((stage, self.options.batch, self.limits.key, *others), make)

    def _groups(self) -> tuple[Group, ...]:
        self.tell("group layers")
        layers, refused = self.network.layers, self.limits.refused
        choose = document_groups if self.options.groups == "document" else group_layers
        return self.limits.cut(choose(layers, self.known.config, self.options, refused=refused))

    def _place(self, groups: tuple[Group, ...]) -> tuple[Placement, ConstantPool]:
        pool = self.packed.empty()
        placement = place_activations(
            self.network.layers,
            groups,
            self.known.config,
            self.options,
            pool=pool,
            outside=self.limits.outside,
            taken=self.taken,
        )
        return placement, pool

    def _fitted(self, groups: tuple[Group, ...], plans: Plans) -> Fitted:
        self.tell("tile")
        placement, pool = self._place(groups)
        config, options, limits = self.known.config, self.options, self.limits
        tiling = tile_groups(
            self.network.layers,
            groups,
            placement,
            pool,
            config,
            options,
            shares=limits.shares,
            plans=plans.convs,
        )
        self.tell(f"schedule {len(tiling.ops)} commands, and place their buffers")
        places = fit(tiling, config, options, part_by_part=limits.part_by_part, lead=plans.lead)
        return Fitted(placement, tiling, pool, places)

    def _program(self, groups: tuple[Group, ...], plans: Plans) -> Program:
        made, config, options = self.fitted(groups, plans), self.known.config, self.options
        assert not isinstance(made.places, Shortage), "reuse the estimated program"
        self.tell("encode and insert tokens")
        ordered, allocation = made.places
        commands, owners = encode(ordered, allocation.rows)
        commands = insert_tokens(commands, config, prefetch=options.prefetch)
        return assemble(
            self.network.layers,
            self.network.macs,
            made.placement,
            made.pool,
            commands,
            owners,
            config,
            options.batch,
            made.tiling.resident,
        )
