"""What a convolution's plan is made from, as far as activations have places."""

from tpulite.arch.isa import RAW_ROWS
from tpulite.compiler.geometry.used_blocks import used_runs
from tpulite.compiler.lower.context import SMALLEST_SHARE, Context
from tpulite.compiler.lower.conv.commands import ConvCommands
from tpulite.compiler.place.stores import Store
from tpulite.compiler.plan.conv_facts import Around, ConvFacts, Lying
from tpulite.graph.layers import Conv

__all__ = ["conv_around", "conv_facts"]


def conv_facts(layer: Conv, commands: ConvCommands, context: Context, *, packed: bool) -> ConvFacts:
    """Return the facts of a convolution whose commands ``commands`` writes."""
    size = context.config.array_size
    n_blocks = range(-(-layer.weight.shape[3] // size))
    rows, columns = commands.extents
    return ConvFacts(
        config=context.config,
        y=commands.y,
        x=commands.x,
        rows=rows,
        columns=columns,
        runs=tuple((range(1),) if packed else tuple(used_runs(layer, size, n)) for n in n_blocks),
        packed=packed,
        vector_rows=RAW_ROWS if layer.requantization is None else 1,
    )


def conv_around(context: Context, source: Store, target: Store) -> Around:
    """Return what a convolution finds around it."""
    # What is smaller while larger parts are tried is not what is there.
    share = context.share if context.share > SMALLEST_SHARE else 1.0
    return Around(
        source=_lying(source),
        target=_lying(target),
        strip_rows=context.strip_rows,
        free_rows=context.free_rows,
        most_rows=int(context.free_rows / share),
        keep=context.keep,
        block_start=context.options.block_start,
    )


def _lying(store: Store) -> Lying:
    row = store.width * store.vector_rows + store.skew
    return Lying(not store.resident, store.blocks, row, store.grain if store.spec else 1)
