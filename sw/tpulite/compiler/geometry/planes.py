"""Two layers that run channel block by channel block: a convolution, and a depthwise one."""

from tpulite.arch.config import Config
from tpulite.compiler.geometry.extents import activation_rows, constant_rows
from tpulite.graph.layers import Conv, Depthwise, LayerGraph

_PARTS = 2
"""Parts of what is between the layers that are in the buffer: one is computed, and one is read."""

_SHARE = 8
"""A part takes an eighth of the buffer, or is one channel block."""


def runs_by_blocks(layers: LayerGraph, members: range) -> bool:
    """Return whether layers can run channel block by channel block.

    The second one must need a block of the first one's output, and nobody else any of it.
    """
    if len(members) != 2:
        return False
    first, second = (layers.layers[i] for i in members)
    if not (isinstance(first, Conv) and isinstance(second, Depthwise)):
        return False
    return layers.sole_reader(first.output) is second and first.requantization is not None


def block_parts(layers: LayerGraph, members: range, config: Config) -> int:
    """Return into how many parts of some channel blocks such layers are cut."""
    middle = layers.activations[layers.layers[members[0]].output]
    blocks = -(-middle.shape[2] // config.array_size)
    at_once = max(1, blocks * config.ub_rows // (_SHARE * activation_rows(middle, config)))
    return -(-blocks // at_once)


def plane_rows(layers: LayerGraph, members: range, config: Config, *, resident: bool) -> int:
    """Return the rows that such layers take beside the input of the first one.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    members : range
        The two layers.
    config : Config
        The machine.
    resident : bool
        Whether the output of the second one stays in the buffer, so that its rows do not count.
    """
    middle, output = (layers.activations[layers.layers[i].output] for i in members)
    planes = _PARTS * activation_rows(middle, config)
    if not resident:
        planes += activation_rows(output, config)
    constants = _PARTS * sum(constant_rows(layers.layers[i], config) for i in members)
    return -(-(planes + constants) // block_parts(layers, members, config))
