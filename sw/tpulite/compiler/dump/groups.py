"""Readable text of layer groups: how each is cut, what is in the buffer when, and at what cost."""

from collections.abc import Sequence
from textwrap import fill

from tpulite.arch.config import Config
from tpulite.compiler.dump.live import live_text
from tpulite.compiler.dump.slices import picture_of_rows, slices_text
from tpulite.compiler.dump.text import columns, short
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_columns, plan_steps
from tpulite.compiler.group.alone_costs import Cost
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.group_costs import GroupCosts
from tpulite.compiler.group.residency import network_cost, resident_activations
from tpulite.compiler.group.search import group_layers
from tpulite.compiler.options import Options
from tpulite.compiler.schedule.live_tensors import Section, StepNumbers
from tpulite.graph.layers import LayerGraph

_WIDTH = 80
"""Columns of the terminal."""


def groups_text(
    groups: tuple[Group, ...],
    layers: LayerGraph,
    config: Config,
    options: Options,
    sections: Sequence[Section] = (),
) -> str:
    """Return the groups, each with its estimate and how it is cut; then what all of them cost.

    Behind a group that is cut, and behind neighbors that are not, are the live ranges that the
    allocator has used, if they are given.
    """
    costs = GroupCosts(GraphTable(layers, config, options), config.ub_rows)
    resident = resident_activations(costs, groups)
    numbers = StepNumbers.of(layers)
    lives = {section.groups[-1]: section for section in sections}
    texts = []
    for i, group in enumerate(groups):
        texts.append(
            f"group {i}: {_header(group, layers, numbers)}"
            f"{_cut(group, layers, options)}{_cost(costs.cost(group, resident), config)}"
            f"{_rows(group, layers)}"
        )
        if section := lives.get(group):
            first = i + 1 - len(section.groups)
            title = f"\nlive ranges of groups {first} to {i}\n" if first < i else ""
            texts[-1] += f"{title}{live_text(section, numbers, config)}"
    alone = group_layers(layers, config, options.ungrouped)
    return "\n".join((*texts, _sums(costs, {"in these groups": groups, "each layer alone": alone})))


def _header(group: Group, layers: LayerGraph, numbers: StepNumbers) -> str:
    first, last = group.layers.start, group.layers.stop - 1
    span = f"layers {first} to {last}" if last > first else f"layer {first}"
    names = [f"T{numbers.layers[i]} {short(layers.layers[i].name, 30)}" for i in group.layers]
    text = fill(", ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return f"{span}\n{text}\n"


def _cut(group: Group, layers: LayerGraph, options: Options) -> str:
    if group.by_blocks:
        return "  channel block by channel block\n"
    if not group.slices:
        return "  alone: the layer tiles itself\n"
    parts = [f"N: {options.batch}", f"H: {_steps(group, layers)}"]
    if group.columns > 1:
        widest = max(len(each) for part in plan_columns(layers, group) for each in part.values())
        parts.append(f"W: {group.columns} of at most {widest} columns")
    if options.batch == group.columns == _steps(group, layers) == 1:
        return "  not cut (N: 1, H: 1)\n"
    how = "rows that slices share are kept" if group.rolling else "halos are recomputed"
    if group.pipelined:
        how += ";\n  the vector path runs a slice behind the array, or before it"
    return f"  slices in {', '.join(parts)}; {how}\n"


def _cost(cost: Cost, config: Config) -> str:
    read, written = (rows * config.row_bytes for rows in (cost.read, cost.written))
    return (
        f"  estimate: {cost.cycles:,} cycles, {read:,} bytes read, {written:,} written,\n"
        f"  {cost.rows:,} rows besides resident tensors\n"
    )


def _rows(group: Group, layers: LayerGraph) -> str:
    if not group.slices or _steps(group, layers) == 1:
        return ""
    return slices_text(layers, group) + picture_of_rows(layers, group)


def _steps(group: Group, layers: LayerGraph) -> int:
    return len(plan_steps(layers, group))


def _sums(costs: GroupCosts, ways: dict[str, tuple[Group, ...]]) -> str:
    """Return what the network is expected to cost in each way."""
    row_bytes = costs.table.config.row_bytes
    rows = []
    for what, groups in ways.items():
        cost = network_cost(costs, groups)
        numbers = (cost.cycles, cost.read * row_bytes, cost.written * row_bytes)
        rows.append((what, *(f"{number:,}" for number in numbers)))
    heads = ("estimate", "cycles", "bytes read", "bytes written")
    return columns(heads, rows, right=(1, 2, 3))
