"""What two layers cost that run channel block by channel block."""

from tpulite.compiler.geometry.planes import block_parts, plane_rows, runs_by_blocks
from tpulite.compiler.group.costs import Cost, step_cycles
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.plan.layer_cost import DramRows, dram_cycles


def can_run_by_blocks(table: GraphTable, members: range, resident: frozenset[str]) -> bool:
    """Return whether layers can run block by block: each block reads the whole input again."""
    return (
        runs_by_blocks(table.layers, members)
        and block_parts(table.layers, members, table.config) > 1
        and resident.issuperset(table.sources[members[0]])
    )


def blocks_cost(table: GraphTable, members: range, resident: frozenset[str]) -> Cost:
    """Return what they cost: nothing between them goes to DRAM, and neither waits for the other.

    Parameters
    ----------
    table : GraphTable
        The network.
    members : range
        The two layers.
    resident : frozenset of str
        Images that stay on chip.
    """
    config, batch, output = table.config, table.options.batch, table.outputs[members[1]]
    source = table.sources[members[0]][0]
    here = output in resident
    rows = plane_rows(table.layers, members, config, resident=here)
    engines = [
        table.compute(i, *(extents[table.outputs[i]] for extents in table.extents)) for i in members
    ]
    constants = sum(table.constants[i] for i in members)
    read = table.rows(source) if table.enters(source, members) else 0
    written = 0 if here and output not in table.layers.outputs else table.rows(output)
    commands = batch * sum(each.commands for each in engines)
    moved = DramRows(read, constants, written, commands)
    cycles = max(
        sum(each.mxu for each in engines) * batch + step_cycles(config),
        dram_cycles(moved, config, table.options.timing),
    )
    return Cost(cycles, read + constants, written, rows, commands)
