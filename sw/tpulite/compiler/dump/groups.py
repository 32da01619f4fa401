"""Readable text of layer groups: which rows of which image are there at a time, at what cost."""

from tpulite.arch.config import Config
from tpulite.compiler.dump.text import columns, short
from tpulite.compiler.grouping.costs import Cost
from tpulite.compiler.grouping.graph_table import GraphTable
from tpulite.compiler.grouping.group import Group
from tpulite.compiler.grouping.group_costs import GroupCosts
from tpulite.compiler.grouping.residency import resident_images
from tpulite.compiler.grouping.slices import plan_columns, plan_steps
from tpulite.compiler.options import Options
from tpulite.graph.layers import LayerGraph

__all__ = ["groups_text"]

_SHOWN = 6
"""Slices of an image that are shown."""


def groups_text(
    groups: tuple[Group, ...], layers: LayerGraph, config: Config, options: Options
) -> str:
    """Return the groups, each with its estimate and the rows of its images."""
    costs = GroupCosts(GraphTable(layers, config, options), config.ub_rows)
    resident = resident_images(costs, groups)
    return "\n".join(
        f"group {i}: {_header(group, layers)}{_cost(costs.cost(group, resident), config)}"
        + (_images(group, layers, config) if group.slices else "")
        for i, group in enumerate(groups)
    )


def _header(group: Group, layers: LayerGraph) -> str:
    first, last = group.layers.start, group.layers.stop - 1
    span = f"layers {first} to {last}" if last > first else f"layer {first}"
    names = ", ".join(layers.layers[i].name for i in group.layers)
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


def _images(group: Group, layers: LayerGraph, config: Config) -> str:
    steps = plan_steps(layers, group)
    rows = []
    for name in sorted({name for step in steps for name in step}):
        height, width, channels = layers.images[name].shape
        views = [step[name].view for step in steps if name in step]
        made = sum(len(step[name].fresh) for step in steps if name in step)
        size = max(map(len, views)) * width * -(-channels // config.array_size)
        shown = [f"{view.start}:{view.stop}" for view in views[:_SHOWN]]
        shown += ["..."] * (len(views) > _SHOWN)
        rows.append((f"  {short(name)}", str(height), str(made), f"{size:,}", " ".join(shown)))
    heads = ("  image", "height", "rows made", "buffer rows", "image rows at a time")
    return columns(heads, rows, right=(1, 2, 3))
