"""All passes that keep the bits of a network, in order."""

from tpulite.graph.graph import Graph
from tpulite.graph.passes.fold_batch_norm import fold_batch_norm
from tpulite.graph.passes.fold_constants import fold_constants
from tpulite.graph.passes.fold_space_to_batch import fold_space_to_batch
from tpulite.graph.passes.fuse_activations import fuse_activations
from tpulite.graph.passes.join_moves import join_moves
from tpulite.graph.passes.pads import fuse_crops, fuse_pads, spread_pads
from tpulite.graph.passes.remove_identities import remove_identities
from tpulite.graph.passes.rewrite import remove_dead_nodes
from tpulite.graph.passes.split_lstm import split_lstm
from tpulite.graph.passes.trace_origins import trace_origins
from tpulite.graph.verify import verify

PASSES = (
    split_lstm,
    trace_origins,  # passes drop tensors of the file that others are moves of
    remove_dead_nodes,
    fold_constants,
    spread_pads,
    fold_space_to_batch,
    remove_identities,
    join_moves,
    fold_batch_norm,
    fuse_activations,
    fuse_pads,
    fuse_crops,
    remove_dead_nodes,
    trace_origins,
)
"""All passes, in the order in which they run."""


def simplify(graph: Graph) -> Graph:
    """Return a graph that computes the same with fewer nodes.

    Integers keep every bit. Floats do, too, except where a batch normalization is folded.
    ValueError if the graph contradicts itself; the message names the node.
    """
    for each in PASSES:
        graph = each(graph)
    verify(graph)
    return graph
