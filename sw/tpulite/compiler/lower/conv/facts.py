"""What a convolution's plan is made from, as far as activations have places."""

from tpulite.compiler.geometry.used_blocks import used_runs
from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.lower.conv.commands import ConvCommands
from tpulite.compiler.plan.conv_facts import ConvFacts
from tpulite.compiler.plan.windows import Axis
from tpulite.graph.layers import Conv

__all__ = ["conv_facts"]


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
