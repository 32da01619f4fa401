"""What a program takes: the cycle model judges ways to compile a network as a whole."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Engine, Opcode
from tpulite.arch.registers import EngineState
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.known import Known
from tpulite.compiler.limits import Limits
from tpulite.compiler.lower.tile_groups import tile_groups
from tpulite.compiler.lower.tiles import TilePlan
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.placement import Placement, place_activations
from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.schedule.addresses import encode
from tpulite.compiler.schedule.fit import fit
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.schedule import LEAD, schedule_commands
from tpulite.golden.timing import predict, predict_cycles
from tpulite.graph.layers import LayerGraph

__all__ = ["Judge", "Plans", "idle_cycles", "traffic"]

_SECOND = 32
"""Bits of what decides between programs that are equal in what counts first."""


@dataclass(frozen=True)
class Plans:
    """How convolutions are cut, and when operands are loaded.

    Parameters
    ----------
    convs : mapping of int to ConvPlan or TilePlan
        By layer, how it is cut; layers that are not here cut themselves.
    lead : int
        Loads that go ahead of a command, beyond those that it needs.
    """

    convs: Mapping[int, ConvPlan | TilePlan] = field(default_factory=dict)
    lead: int = LEAD

    @property
    def key(self) -> Hashable:
        """Something that equal plans have, and no others."""
        return frozenset(self.convs.items()), self.lead


@dataclass(frozen=True)
class Judge:
    """The cost of programs of one network.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    pool : ConstantPool
        Knows what has been packed.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.
    limits : Limits
        What is known not to fit.
    known : Known
        Programs for machines that differ in nothing but speed, without regard to which.
    """

    layers: LayerGraph
    pool: ConstantPool
    config: Config
    options: Options
    limits: Limits
    known: Known

    def place(self, groups: tuple[Group, ...]) -> Placement:
        """Return where images are; what is known goes to a pool of its own."""
        return place_activations(
            self.layers,
            groups,
            self.known.config,
            self.options,
            pool=self.pool.empty(),
            outside=self.limits.outside,
        )

    def cost(
        self, groups: tuple[Group, ...], placement: Placement, plans: Plans
    ) -> tuple[float, int]:
        """Return cycles, infinite if something does not fit, and how many commands were judged.

        Of equally fast programs that which moves fewer bytes of DRAM costs less, by a fraction of a
        cycle. If the user wants little traffic, bytes count first.
        """
        commands = self._commands(groups, placement, plans)
        if isinstance(commands, int):
            return math.inf, commands
        return self.cost_of(commands), len(commands)

    def cost_of(self, commands: tuple[Command, ...]) -> float:
        """Return what :meth:`cost` is of a program."""
        cycles, moved = self.cycles(commands), traffic(commands, self.config)
        if self.options.optimize == "memory":
            return (moved << _SECOND) + cycles
        return cycles + moved / (1 << _SECOND)

    def cycles(self, commands: tuple[Command, ...]) -> int:
        """Return the cycles of a program."""
        return predict_cycles(commands, self.config)

    def idle(self, groups: tuple[Group, ...], placement: Placement, plans: Plans) -> int:
        """Return the cycles in which the busiest engine waits; 0 if something does not fit."""
        commands = self._commands(groups, placement, plans)
        return 0 if isinstance(commands, int) else idle_cycles(commands, self.config)

    def _commands(
        self, groups: tuple[Group, ...], placement: Placement, plans: Plans
    ) -> tuple[Command, ...] | int:
        return self.known.once(
            ("judge", self.options.batch, self.limits.key, groups, plans.key),
            lambda: self._lower(groups, placement, plans),
        )

    def _lower(
        self, groups: tuple[Group, ...], placement: Placement, plans: Plans
    ) -> tuple[Command, ...] | int:
        """Return a program; if it does not fit, only how many commands it would have."""
        config, options, limits = self.known.config, self.options, self.limits
        tiling = tile_groups(
            self.layers,
            groups,
            placement,
            self.pool.empty(),
            config,
            options,
            shares=limits.shares,
            plans=plans.convs,
        )
        if options.allocator == "online" and not limits.part_by_part:
            lead = plans.lead if options.prefetch else 0
            found = schedule_commands(tiling, config, lead=lead)
        else:
            fitted = fit(tiling, config, options, part_by_part=limits.part_by_part, lead=plans.lead)
            found = fitted if isinstance(fitted, Shortage) else encode(fitted[0], fitted[1].rows)
        if isinstance(found, Shortage):
            return len(tiling.ops)
        commands, _ = found
        return insert_tokens(commands, config, prefetch=options.prefetch)


def idle_cycles(commands: tuple[Command, ...], config: Config) -> int:
    """Return the cycles in which the busiest engine of a program waits."""
    timeline = predict(commands, config)
    busy = max(timeline.engine(engine)[EngineState.BUSY] for engine in Engine)
    return timeline.cycles - busy


def traffic(commands: tuple[Command, ...], config: Config) -> int:
    """Return bytes that go to and come from DRAM, commands included."""
    moves = (each for each in commands if each.opcode in (Opcode.LOAD, Opcode.STORE))
    rows = sum(each["lines"] * each["rows"] for each in moves)
    return rows * config.row_bytes + len(commands) * COMMAND_BYTES
