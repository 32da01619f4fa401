"""From when to when a layer group needs each buffer: time steps and live ranges."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_columns, plan_steps
from tpulite.compiler.group.graph_table import GraphTable

__all__ = ["LiveRange", "Use", "lifetimes", "live_ranges", "peak"]


@dataclass(frozen=True)
class Use:
    """What one layer touches, all by name.

    Parameters
    ----------
    time : int
        Time step at which it runs; the order numbers of layers will do.
    reads : tuple of str
        Activations.
    writes : str
        The activation that it computes.
    weights : tuple of str
        Constants, which can be loaded one step early.
    buffers : tuple of str
        What the layer needs only while it runs.
    """

    time: int
    reads: tuple[str, ...]
    writes: str
    weights: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True)
class LiveRange:
    """A buffer and its time steps.

    Parameters
    ----------
    name : str
        Name of the image, or of what belongs to the layer.
    kind : str
        ``activation``, ``weight`` or ``buffer``.
    rows : int
        Rows of the unified buffer.
    first : int
        First time step.
    last : int, optional
        Last time step; None: to the end of the group, and in every slice.
    """

    name: str
    kind: str
    rows: int
    first: int
    last: int | None


def live_ranges(
    uses: Sequence[Use], rows: Mapping[str, int], *, stay: Collection[str] = ()
) -> tuple[LiveRange, ...]:
    """Return the live ranges of all that layers touch, in order of the first step.

    An activation lives from where it is computed, or first read, to where it is last read. Weights
    come while the layer before runs, unless there is none.

    Parameters
    ----------
    uses : sequence of Use
        Layers in the order in which they run.
    rows : mapping of str to int
        Size of each buffer; what has none does not count.
    stay : collection of str
        Weights that stay to the end, because their layers run several times.
    """
    kinds: dict[str, str] = {}
    first: dict[str, int] = {}
    last: dict[str, int | None] = {}
    early = uses[0].time if uses else 0
    for use in uses:
        for kind, names, start in (
            ("activation", (*use.reads, use.writes), use.time),
            ("weight", use.weights, early),
            ("buffer", use.buffers, use.time),
        ):
            for name in (name for name in names if name in rows):
                kinds.setdefault(name, kind)
                first.setdefault(name, start)
                last[name] = None if name in stay else use.time
        early = use.time
    found = [LiveRange(name, kinds[name], rows[name], first[name], last[name]) for name in kinds]
    return tuple(sorted(found, key=lambda each: each.first))


def lifetimes(
    table: GraphTable, group: Group, resident: frozenset[str] = frozenset()
) -> tuple[LiveRange, ...]:
    """Return what a group needs while it runs; time steps are the indices of its layers.

    Activations have the size of their most live rows, so all of them if the group is not sliced. A
    layer that loads its weights in every slice has those of two blocks of outputs at a time.
    Where rows are kept from slice to slice, a strip lives to the end of its slice, and as a buffer
    of the next one up to the layer that copies from it.

    Parameters
    ----------
    table : GraphTable
        The network.
    group : Group
        Layers that can be sliced, if it has slices.
    resident : frozenset of str
        Images that are on chip as a whole, and need no strips.
    """
    layers = table.layers
    members = [layers.layers[i] for i in group.layers]
    columns = plan_columns(layers, group) if group.columns > 1 else ()
    rows: dict[str, int] = {}
    kept: dict[str, int] = {}
    steps = plan_steps(layers, group) if group.slices else ()
    images = dict.fromkeys(name for x in members for name in (*x.inputs, x.output))
    for name in (name for name in images if name not in resident):
        whole = table.layers.activations[name].shape
        found = [step[name] for step in steps]
        height = max((len(each.live) for each in found), default=whole[0])
        width = max((len(part[name]) for part in columns), default=whole[1])
        rows[name] = height * table.row[name] * width // whole[1]
        before = (len(a.live) for a, b in pairwise(found) if b.new and b.live.start < b.new.start)
        kept[name] = max(before, default=0) * table.row[name]
    uses: list[Use] = []
    stay: set[str] = set()
    waiting = [name for name in rows if kept[name]]
    for time, layer in zip(group.layers, members, strict=True):
        weights, constants = f"constants of {layer.name}", table.constants[time]
        if time in group.reloaded:
            constants = table.at_once(time)
        elif group.slices * group.columns * table.options.batch > 1:
            stay.add(weights)
        buffers = {f"{name} of the slice before": kept[name] for name in waiting}
        waiting = [name for name in waiting if name not in (*layer.inputs, layer.output)]
        reads = layer.inputs
        if time == group.layers[-1]:
            reads += tuple(name for name in kept if kept[name] and name not in reads)
        rows |= buffers | {weights: constants}
        uses.append(Use(time, reads, layer.output, (weights,) * (constants > 0), tuple(buffers)))
    return live_ranges(uses, rows, stay=stay)


def peak(buffers: Iterable[LiveRange]) -> int:
    """Return the largest sum of rows that live at one time: no allocation needs less.

    What stays to the end is there all the time: from the second slice on.
    """
    buffers = tuple(buffers)
    return max(
        (
            sum(each.rows for each in buffers if _lives(each, time))
            for time in {each.first for each in buffers}
        ),
        default=0,
    )


def _lives(lifetime: LiveRange, time: int) -> bool:
    return lifetime.last is None or lifetime.first <= time <= lifetime.last
