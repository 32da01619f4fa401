"""What a network is expected to cost that runs in some groups."""

from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.group_costs import GroupCosts
from tpulite.compiler.group.residency import resident_activations
from tpulite.compiler.options import Options
from tpulite.graph.layers import LayerGraph

__all__ = ["Prediction", "predict_groups"]

_DEFAULTS = Options()


@dataclass(frozen=True)
class Prediction:
    """Cycles of a network, and the bytes that it reads from and writes to DRAM."""

    cycles: int
    read_bytes: int
    written_bytes: int


def predict_groups(
    layers: LayerGraph,
    groups: tuple[Group, ...],
    config: Config,
    options: Options = _DEFAULTS,
) -> Prediction:
    """Return what a network costs whose layers run in these groups, commands not counted.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    groups : tuple of Group
        Groups that cover it. Images between them stay on chip as
        :func:`tpulite.compiler.group.residency.resident_activations` says.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.
    """
    costs = GroupCosts(GraphTable(layers, config, options), config.ub_rows)
    resident = resident_activations(costs, groups)
    found = [costs.cost(group, resident) for group in groups]
    return Prediction(
        sum(cost.cycles for cost in found),
        sum(cost.read for cost in found) * config.row_bytes,
        sum(cost.written for cost in found) * config.row_bytes,
    )
