"""A network on its way to be lowered: all that is rewritten before groups are chosen."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.compiler.encode.batch import check_sizes
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.neighbors import join_neighbors
from tpulite.compiler.rewrite.order import order_layers
from tpulite.compiler.rewrite.patches import pack_patches
from tpulite.compiler.rewrite.picks import mark_views, split_picks
from tpulite.compiler.rewrite.simplify.network import Simplified, simplify_layers
from tpulite.compiler.rewrite.stack import stack_images
from tpulite.compiler.rewrite.substitute import substitute_layers
from tpulite.compiler.rewrite.transposed import split_transposed
from tpulite.compiler.rewrite.unread_pixels import remove_unread_pixels
from tpulite.graph.layers import LayerGraph

__all__ = ["Rewritten", "rewrite_network", "split_layers"]


@dataclass(frozen=True)
class Rewritten:
    """A network as it is lowered.

    Parameters
    ----------
    simplified : Simplified
        What was simplified, and how; for dumps.
    layers : LayerGraph
        Its layers.
    macs : mapping of str to int
        Multiplications of each layer that has some, those by zeros that were added not counted.
    stacked : bool
        Whether the images of a batch have become one.
    """

    simplified: Simplified
    layers: LayerGraph
    macs: Mapping[str, int]
    stacked: bool


def split_layers(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return a network without transposed convolutions and picks that no command can express."""
    return split_transposed(split_picks(layers, config), config)


def rewrite_network(layers: LayerGraph, config: Config, options: Options) -> Rewritten:
    """Return a network as it is lowered.

    Parameters are those of :func:`tpulite.compiler.pipeline.compile_layers`.

    Raises
    ------
    ValueError
        If an input or output of a batch is larger than a window of DRAM.
    """
    simplified = simplify_layers(split_layers(layers, config), config, options)
    layers = simplified.layers
    if options.simplify:
        layers = remove_unread_pixels(layers)
    check_sizes(layers, config, options.batch)
    together = stack_images(layers, options.batch)
    stacked, layers = together is not None, together or layers
    macs = layers.macs()
    layers = substitute_layers(order_layers(layers), config)
    if options.dense_mode and not stacked:
        layers = pack_patches(join_neighbors(layers, config), config)
    return Rewritten(simplified, mark_views(layers, config), macs, stacked)
