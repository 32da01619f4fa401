"""What a convolution's plan is made from, as far as activations have places."""

from tpulite.compiler.geometry.used_blocks import used_runs
from tpulite.compiler.lower.context import SMALLEST_SHARE, LayerContext
from tpulite.compiler.lower.conv.commands import ConvCommands
from tpulite.compiler.place.stores import Store
from tpulite.compiler.plan.conv_facts import Around, ConvFacts, Lying
from tpulite.compiler.plan.windows import Axis
from tpulite.graph.layers import Conv

__all__ = ["conv_around", "conv_facts"]


def conv_facts(layer: Conv, commands: ConvCommands, context: LayerContext) -> ConvFacts:
    """Return the facts of a convolution whose commands ``commands`` writes."""
    size, packed = context.config.array_size, commands.byte_step > 0
    n_blocks = range(-(-layer.weight.shape[3] // size))
    y, x = (
        Axis(axis.kernel, axis.stride, axis.dilation, axis.pad, 0)
        for axis in (commands.y, commands.x)
    )
    return ConvFacts(
        config=context.config,
        y=y,
        x=x,
        byte_step=commands.byte_step,
        blocks=1 if packed else -(-layer.weight.shape[2] // size),
        runs=tuple((range(1),) if packed else tuple(used_runs(layer, size, n)) for n in n_blocks),
        form=commands.form,
    )


def conv_around(
    commands: ConvCommands, context: LayerContext, source: Store, target: Store
) -> Around:
    """Return what a convolution finds around it."""
    # What is smaller while larger parts are tried is not what is there.
    share = context.share if context.share > SMALLEST_SHARE else 1.0
    return Around(
        extents=commands.extents,
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
    return Lying(not store.resident, store.blocks, row, store.grain, store.spec is not None)
