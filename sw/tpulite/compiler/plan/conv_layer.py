"""The facts of a convolution of one shape, as far as its input has a place."""

from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.arch.isa import RecordForm
from tpulite.compiler.geometry.axis import Axis1D, axes_of
from tpulite.compiler.geometry.closed_forms import ceil_div
from tpulite.compiler.geometry.extents import int4_tiles, used_runs
from tpulite.compiler.plan.conv_facts import ConvFacts
from tpulite.compiler.plan.space import Placed
from tpulite.graph.layers import Conv


def conv_facts(layer: Conv, source: Placed, target: Placed, config: Config) -> ConvFacts:
    """Return the facts of a convolution.

    Parameters
    ----------
    source, target : Placed
        What it reads and computes: perhaps packed rows, perhaps some of the columns.
    """
    kh, kw, depth, outputs = layer.weight.shape
    size, packed, form = config.array_size, source.packed, None
    y, x = axes_of((kh, kw), layer.stride, layer.dilation, (*layer.padding[:2], 0, 0))
    x = replace(x, before=x.before + source.column - target.column * x.stride)
    if transposed := packed is not None and packed.transposed:
        y, x = x, y
    if (requantization := layer.requantization) is not None:
        form = RecordForm.SHORT if requantization.uniform else RecordForm.FULL
    byte_step, blocks = 0, ceil_div(depth, size)
    if packed is not None:  # columns are bytes; padding before the first is in the packed row
        byte_step, blocks = x.stride * depth, 1
        x = Axis1D(ceil_div(x.kernel * depth, size))
    return ConvFacts(
        config=config,
        y=y,
        x=x,
        byte_step=byte_step,
        blocks=blocks,
        runs=tuple(
            (range(1),) if byte_step else tuple(used_runs(layer, size, n))
            for n in range(ceil_div(outputs, size))
        ),
        form=form,
        transposed=transposed,
        column_grain=layer.column_grain,
        int4=int4_tiles(layer, config, packed_rows=packed is not None),
    )
