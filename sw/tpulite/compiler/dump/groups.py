"""Readable text of layer groups: what is in the buffer at which time, at what cost."""

from collections.abc import Iterable

from tpulite.arch.config import Config
from tpulite.compiler.dump.text import columns, short
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_columns, plan_steps
from tpulite.compiler.group.costs import Cost
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.group_costs import GroupCosts
from tpulite.compiler.group.lifetimes import LiveRange, lifetimes, peak
from tpulite.compiler.group.predictions import predict_groups
from tpulite.compiler.group.residency import resident_activations
from tpulite.compiler.group.search import group_layers
from tpulite.compiler.options import Options
from tpulite.graph.layers import LayerGraph

__all__ = ["groups_text"]

_SHOWN = 6
"""Slices of an image that are shown."""


def groups_text(
    groups: tuple[Group, ...], layers: LayerGraph, config: Config, options: Options
) -> str:
    """Return the groups, each with its estimate, its images and its live ranges; then all of them.

    Time steps of live ranges are the numbers of the layers.
    """
    table = GraphTable(layers, config, options)
    costs = GroupCosts(table, config.ub_rows)
    resident = resident_activations(costs, groups)
    texts = [
        f"group {i}: {_header(group, layers)}{_cost(costs.cost(group, resident), config)}"
        + (_cut(group, table, resident) if group.slices else "")
        for i, group in enumerate(groups)
    ]
    return "\n".join((*texts, _sums(groups, layers, config, options)))


def _header(group: Group, layers: LayerGraph) -> str:
    first, last = group.layers.start, group.layers.stop - 1
    span = f"layers {first} to {last}" if last > first else f"layer {first}"
    names = ", ".join(layers.layers[i].name for i in group.layers)
    if group.by_blocks:
        return f"{span} ({names}), channel block by channel block\n"
    if not group.slices:
        return f"{span} ({names}), which cuts itself\n"
    how = "rows that slices share are kept" if group.rolling else "halos are made again"
    cut = f"{group.slices} slices of height"
    if group.columns > 1:
        widest = max(len(each) for part in plan_columns(layers, group) for each in part.values())
        cut += f" in {group.columns} slices of width (at most {widest} columns)"
    return f"{span} ({names}), {cut}, {how}\n"


def _cost(cost: Cost, config: Config) -> str:
    read, written = (rows * config.row_bytes for rows in (cost.read, cost.written))
    return (
        f"  estimate: {cost.cycles:,} cycles, {read:,} bytes read, {written:,} written, "
        f"{cost.rows:,} rows beside resident images\n"
    )


def _sums(groups: tuple[Group, ...], layers: LayerGraph, config: Config, options: Options) -> str:
    """Return what the network is expected to cost with these groups, and without any."""
    alone = group_layers(layers, config, options.ungrouped)
    rows = []
    for what, each in (("in these groups", groups), ("each layer alone", alone)):
        cost = predict_groups(layers, each, config, options)
        numbers = (cost.cycles, cost.read_bytes, cost.written_bytes)
        rows.append((what, *(f"{number:,}" for number in numbers)))
    heads = ("estimate", "cycles", "bytes read", "bytes written")
    return columns(heads, rows, right=(1, 2, 3))


def _cut(group: Group, table: GraphTable, resident: frozenset[str]) -> str:
    lives = lifetimes(table, group, resident)
    return f"{_images(group, table.layers, lives)}{_live_ranges(lives)}"


def _live_ranges(lives: Iterable[LiveRange]) -> str:
    rows = [
        (
            f"  {short(each.name)}",
            each.kind,
            f"{each.rows:,}",
            str(each.first),
            "all slices" if each.last is None else str(each.last),
        )
        for each in lives
    ]
    heads = ("  live", "kind", "buffer rows", "from", "to")
    text = columns(heads, rows, right=(2, 3, 4))
    return f"{text}  at least {peak(lives):,} rows live at one time\n"


def _images(group: Group, layers: LayerGraph, lives: Iterable[LiveRange]) -> str:
    steps = plan_steps(layers, group)
    sizes = {each.name: each.rows for each in lives}
    rows = []
    for name in sorted({name for step in steps for name in step}):
        height = layers.activations[name].shape[0]
        live = [step[name].live for step in steps if name in step]
        made = sum(len(step[name].new) for step in steps if name in step)
        shown = [f"{part.start}:{part.stop}" for part in live[:_SHOWN]]
        shown += ["..."] * (len(live) > _SHOWN)
        rows.append(
            (
                f"  {short(name)}",
                str(height),
                str(made),
                f"{sizes[name]:,}" if name in sizes else "resident",
                " ".join(shown),
            )
        )
    heads = ("  image", "height", "rows made", "buffer rows", "image rows at a time")
    return columns(heads, rows, right=(1, 2, 3))
