"""The state of a compilation, which passes hand on; and the memo of what they have made."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tpulite.arch.config import Config
from tpulite.arch.isa import Command
from tpulite.compiler.cuts import Cut
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.placement import Placement
from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.plan.slabs import TilePlan
from tpulite.compiler.rewrite.simplify.network import Simplified
from tpulite.compiler.schedule.allocate import Allocation
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.schedule import LEAD
from tpulite.compiler.schedule.scheduled import Schedule
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program

if TYPE_CHECKING:
    from tpulite.compiler.bind.network_plan import NetworkPlan

T = TypeVar("T")

_PLAIN = Config()


def unpaced(config: Config) -> Config:
    """Return the machine as all passes see it but searches, which predict cycles.

    Queues, bursts and slices are those of the default machine: no layer is cut by them, and no
    buffer is placed.
    """
    return replace(
        config,
        queue_depth=_PLAIN.queue_depth,
        burst_beats=_PLAIN.burst_beats,
        dma_bursts=_PLAIN.dma_bursts,
        axi_slices=_PLAIN.axi_slices,
    )


class Known:
    """The memo of compilations of one network, with options that differ in the effort alone.

    Parameters
    ----------
    config : Config
        One of the machines; others may differ from it in what :func:`unpaced` takes away.

    Attributes
    ----------
    config : Config
        What they have in common.
    """

    def __init__(self, config: Config) -> None:
        self.config = unpaced(config)
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returns; it is called once a key. Callers must not mutate it."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


@dataclass(frozen=True)
class Limits:
    """What is known not to fit the unified buffer."""

    outside: frozenset[str] = frozenset()  #: Activations that must not stay on chip.
    refused: frozenset[Group] = frozenset()  #: Groups that do not fit.
    #: Whether rows are so few that parts of the program are packed one by one.
    part_by_part: bool = False
    #: Layers that do not fit as they cut themselves, and how they are cut.
    cuts: Mapping[int, Cut] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.outside, self.refused, self.part_by_part, frozenset(self.cuts.items())))

    @property
    def shares(self) -> dict[int, float]:
        """By layer, part of their usual size that its tiles may have."""
        return {index: cut.share for index, cut in self.cuts.items()}

    def cut(self, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        """Return the groups, layers alone cut as they must be."""
        known = {cut.group.layers: cut.group for cut in self.cuts.values()}
        return tuple(known.get(each.layers, each) for each in groups)


@dataclass(frozen=True)
class Plans:
    """How layers are cut that do not cut themselves, and when operands are loaded."""

    #: By layer, how it is cut.
    convs: Mapping[int, ConvPlan | TilePlan] = field(default_factory=dict)
    lead: int = LEAD  #: Loads that go ahead of a command, beyond those that it needs.

    def __hash__(self) -> int:
        return hash((frozenset(self.convs.items()), self.lead))


@dataclass(frozen=True, eq=False)
class BoundChoice:
    """The choice between the compiled program and the bound one."""

    #: Cycles of the compiled program; None if the plan is too far from it to ask.
    compiled: int | None
    plan: "NetworkPlan | None"  #: What would be bound; None if the network cannot be.
    #: Cycles of the bound program; None if its plan promises too little to make it.
    bound: int | None = None
    program: Program | None = None  #: The bound program, if it is taken.


@dataclass(frozen=True, eq=False)
class State:
    """A network on its way to a program: a pass returns it with more, or with other fields.

    Stages make what begins as None.
    """

    layers: LayerGraph  #: The network.
    machine: Config  #: The machine. Only predicted cycles depend on its speed.
    config: Config  #: The same for all else, without its speed.
    #: Choices of the user; the batch are the images that go through the network together.
    options: Options
    known: Known  #: The memo.
    #: Multiplications of each layer that has some, those by zeros that were added not counted.
    macs: Mapping[str, int]
    simplified: Simplified  #: What was simplified, and how.
    stacked: bool = False  #: Whether the images of a batch have become one.
    changed: tuple[str, ...] = ()  #: Rewrites that have changed the network, in their order.
    #: Constants of the network; before it is tiled, only what has been packed before.
    pool: ConstantPool = field(default_factory=ConstantPool)
    pinned_rows: int = 0  #: Rows of the unified buffer in which constants stay from run to run.
    limits: Limits = Limits()  #: What is known not to fit.
    groups: tuple[Group, ...] = ()  #: Layers that run together, slice by slice.
    plans: Plans = Plans()  #: How layers are cut that do not cut themselves.
    #: Whether vectors come as early as they can, not layer by layer.
    early: bool = False
    #: Where activations are.
    placement: Placement = None  # type: ignore[assignment]
    #: Commands without addresses, in an order in which they could run one after the other.
    tiling: Tiling = None  # type: ignore[assignment]
    #: The same in their final order.
    schedule: Schedule = None  # type: ignore[assignment]
    shortage: Shortage | None = None  #: The buffer that finds no place, instead of a schedule.
    #: Rows of the buffers.
    allocation: Allocation = None  # type: ignore[assignment]
    commands: tuple[Command, ...] = ()  #: Commands with rows and tokens, END last.
    owners: tuple[int, ...] = ()  #: Layer of each command but END.
    #: Whether the program is bound to the shape instead; None if that was not tried.
    bound: BoundChoice | None = None
    #: All that a device needs.
    program: Program = None  # type: ignore[assignment]

    @classmethod
    def of(
        cls, layers: LayerGraph, machine: Config, options: Options, known: Known | None = None
    ) -> Self:
        """Return a network as users give it."""
        known = known or Known(machine)
        simplified = Simplified(layers)
        return cls(layers, machine, known.config, options, known, layers.macs(), simplified)

    def choose(self, **choices: Any) -> Self:
        """Return the same with other limits, groups or plans: nothing is made of them yet."""
        made = ("placement", "tiling", "schedule", "shortage", "allocation", "bound", "program")
        return replace(self, **choices, **dict.fromkeys(made), commands=(), owners=())


def memoized(*fields: str) -> Callable[[Callable[[State], T]], Callable[[State], T]]:
    """Call a function of a state once for equal values of these fields.

    It may depend on nothing else but the network, the machine without its speed, the batch, and
    options other than the effort, which all states with one memo share.
    """

    def decorate(make: Callable[[State], T]) -> Callable[[State], T]:
        @wraps(make)
        def recall(state: State) -> T:
            values = (getattr(state, name) for name in fields)
            key = make.__name__, state.options.batch, *values
            return state.known.once(key, lambda: make(state))

        return recall

    return decorate


def stage(*fields: str) -> Callable[[Callable[[State], dict[str, Any]]], Callable[[State], State]]:
    """Make a pass of a function that returns new fields: memoized, see :func:`memoized`."""

    def decorate(make: Callable[[State], dict[str, Any]]) -> Callable[[State], State]:
        recall = memoized(*fields)(make)

        @wraps(make)
        def run(state: State) -> State:
            return replace(state, **recall(state))

        return run

    return decorate
