"""A network on its way to be lowered: all that is rewritten before groups are chosen.

:data:`PASSES` is the list of what is done, in order; to add a pass, add a line. A pass is given the
network that the pass before it has left, and what it returns is verified before the next one runs.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

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
from tpulite.compiler.rewrite.tables import tabulate_chains
from tpulite.compiler.rewrite.transposed import split_transposed
from tpulite.compiler.rewrite.unread_pixels import remove_unread_pixels
from tpulite.graph.layers import LayerGraph

__all__ = ["PASSES", "Pass", "PassLeftOut", "Rewritten", "rewrite_network", "split_layers"]


class PassLeftOut(UserWarning):
    """A pass has made a network that does not verify; the one before it is compiled instead."""


@dataclass(frozen=True)
class Rewritten:
    """A network as it is lowered, or on its way there.

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
    changed : tuple of str
        Names of the passes that have changed it, in their order.
    """

    simplified: Simplified
    layers: LayerGraph
    macs: Mapping[str, int]
    stacked: bool = False
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pass:
    """A rewriting of a network: its results stay the same.

    Parameters
    ----------
    name : str
        What it does: a verb and a noun.
    rewrite : callable
        Returns the rewritten network.
    adds_zeros : bool
        Whether layers multiply by more zeros afterwards, which do not count as MACs.
    """

    name: str
    rewrite: Callable[[Rewritten, Config, Options], Rewritten]
    adds_zeros: bool = False


def _on_layers(
    rewrite: Callable[[LayerGraph, Config], LayerGraph],
) -> Callable[[Rewritten, Config, Options], Rewritten]:
    """Return what rewrites nothing but layers, whatever the options are."""
    return lambda network, config, options: replace(network, layers=rewrite(network.layers, config))


def _simplify(network: Rewritten, config: Config, options: Options) -> Rewritten:
    simplified = simplify_layers(network.layers, config, options)
    return replace(network, simplified=simplified, layers=simplified.layers)


def _if_simplified(
    rewrite: Callable[[LayerGraph], LayerGraph],
) -> Callable[[Rewritten, Config, Options], Rewritten]:
    """Return what rewrites layers only if they are to be simplified."""
    return lambda network, config, options: (
        replace(network, layers=rewrite(network.layers)) if options.simplify else network
    )


def _stack_images(network: Rewritten, config: Config, options: Options) -> Rewritten:
    tall = stack_images(network.layers, options.batch)
    return network if tall is None else replace(network, layers=tall, stacked=True)


def _densely(
    rewrite: Callable[[LayerGraph, Config], LayerGraph],
) -> Callable[[Rewritten, Config, Options], Rewritten]:
    """Return what rewrites layers for dense mode, which tall images do not have."""

    def apply(network: Rewritten, config: Config, options: Options) -> Rewritten:
        if not options.dense_mode or network.stacked:
            return network
        return replace(network, layers=rewrite(network.layers, config))

    return apply


_SPLITS = (
    Pass("split strided slices", _on_layers(split_picks)),
    Pass("split transposed convolutions", _on_layers(split_transposed)),
)

PASSES = (
    Pass("tabulate chains", _if_simplified(tabulate_chains)),
    *_SPLITS,
    Pass("simplify layers", _simplify),
    Pass("remove unread pixels", _if_simplified(remove_unread_pixels)),
    Pass("stack images", _stack_images),
    Pass("order layers", _on_layers(lambda layers, config: order_layers(layers))),
    Pass("substitute layers", _on_layers(substitute_layers), adds_zeros=True),
    Pass("join neighbors", _densely(join_neighbors), adds_zeros=True),
    Pass("pack patches", _densely(pack_patches), adds_zeros=True),
    Pass("mark views", _on_layers(mark_views), adds_zeros=True),
)
"""All passes, in the order in which they run."""


def split_layers(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return a network without transposed convolutions and picks that no command can express."""
    network = Rewritten(Simplified(layers), layers, {})
    for each in _SPLITS:
        network = each.rewrite(network, config, Options())
    return network.layers


def rewrite_network(layers: LayerGraph, config: Config, options: Options) -> Rewritten:
    """Return a network as it is lowered.

    A pass whose result does not verify is left out, with a warning of class :class:`PassLeftOut`:
    tests make an error of it.

    Parameters are those of :func:`tpulite.compiler.pipeline.compile_layers`.

    Raises
    ------
    ValueError
        If an input or output of a batch is larger than a window of DRAM.
    """
    check_sizes(layers, config, options.batch)
    network = Rewritten(Simplified(layers), layers, layers.macs())
    for each in PASSES:
        try:
            rewritten = each.rewrite(network, config, options)
            _verify(rewritten, network)
        except ValueError as error:
            text = f"{layers.name!r} is compiled without the pass {each.name!r}: {error}"
            warnings.warn(text, PassLeftOut, stacklevel=2)
            continue
        if not _same(rewritten.layers, network.layers):
            macs = network.macs if each.adds_zeros else rewritten.layers.macs()
            changed = (*network.changed, each.name)
            rewritten = replace(rewritten, macs=macs, changed=changed)
        network = rewritten
    return network


def _verify(after: Rewritten, before: Rewritten) -> None:
    """Raise ValueError if a network has not the ends that it had before.

    Whatever makes a network has it verify that its layers suit each other.
    """
    new, old = after.layers, before.layers
    for what in ("inputs", "outputs", "unsigned"):
        if (found := getattr(new, what)) != (wanted := getattr(old, what)):
            raise ValueError(f"{what} must be {wanted}, not {found}")
    for name in (*new.inputs, *new.outputs) if after.stacked == before.stacked else ():
        if new.activations[name] != old.activations[name] and name not in new.packed:
            raise ValueError(
                f"{name!r} must be {old.activations[name]}, not {new.activations[name]}"
            )


def _same(a: LayerGraph, b: LayerGraph) -> bool:
    """Return whether no layer is another one, and no activation has another shape."""
    alike = len(a.layers) == len(b.layers) and a.activations == b.activations
    return alike and all(x is y for x, y in zip(a.layers, b.layers, strict=True))
