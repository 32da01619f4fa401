"""Which of the images between groups stay on chip, as far as the costs of groups assume.

What is done in the end is decided when the groups are known: see
:class:`tpulite.compiler.tiling.live.LiveImages`.
"""

from tpulite.compiler.grouping.graph_table import GraphTable
from tpulite.compiler.grouping.group import Group
from tpulite.compiler.grouping.group_costs import GroupCosts

__all__ = ["crossing_rows", "resident_images"]


def resident_images(
    costs: GroupCosts, groups: tuple[Group, ...], *, largest: int | None = None
) -> frozenset[str]:
    """Return the images that stay on chip from their first to their last use.

    Wherever images and what a group needs beside them take too many rows, the largest image goes.

    Parameters
    ----------
    costs : GroupCosts
        Costs of groups.
    groups : tuple of Group
        Groups that cover the network. Images inside those that are sliced never stay.
    largest : int, optional
        Rows of an image that may stay, at most.
    """
    table = costs.table
    strips = {
        name
        for group in groups
        if group.slices
        for name in table.touched(group.layers)
        if table.inside(name, group.layers)
    }
    rows = {name: table.rows(name) for name in table.layers.images}
    order = sorted(
        (
            name
            for name in rows
            if name not in strips and (largest is None or rows[name] <= largest)
        ),
        key=lambda name: (rows[name], name),
    )
    resident = frozenset(order)
    for group in groups:
        live = [name for name in order if name in resident and table.live(name, group.layers)]
        taken = sum(rows[name] for name in live)
        while live and taken + costs.cost(group, resident).rows > costs.limit:
            name = live.pop()
            taken -= rows[name]
            resident -= {name}
    return resident


def crossing_rows(table: GraphTable, members: range, resident: frozenset[str]) -> int:
    """Return the rows of images that stay on chip while a group runs.

    Images that are only needed inside it do not count.
    """
    return sum(
        table.rows(name)
        for name in resident
        if table.live(name, members) and not table.inside(name, members)
    )
