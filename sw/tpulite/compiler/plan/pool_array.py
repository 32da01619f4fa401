"""Averages on the array: a depthwise convolution with ones sums windows of one size.

The vector path reads each window, the array each position about once for all windows. A window that
the border clips has a divisor of its own, so its region is a command of its own on either engine.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from tpulite.arch.config import Config
from tpulite.arch.isa import CONV, VectorOp
from tpulite.arch.timing import vector_cycles, vector_overhead
from tpulite.compiler.geometry.axis import (
    LARGEST_EXTENT,
    LARGEST_KERNEL,
    LARGEST_STRIDE,
    Axis1D,
)
from tpulite.compiler.plan.conv_cost import CONV_CYCLES
from tpulite.compiler.plan.depthwise_plan import DepthwiseSpace, depthwise_plan
from tpulite.compiler.plan.pool_windows import Run, find_runs
from tpulite.graph.layers import Activation, Pool

_LESS = 2
"""How many times fewer cycles of the array than of the vector path a region must take: the layers
before and behind a pool mostly wait for the array."""


def suits_array(layer: Pool) -> bool:
    """Return whether the array may sum windows of a pool."""
    return (
        layer.op == "average"
        and 1 < max(layer.window) <= LARGEST_KERNEL
        and max(layer.stride) <= LARGEST_STRIDE
        and max(layer.padding) <= CONV.limit("pad_top")
    )


@dataclass(frozen=True)
class ArrayShare:
    """Regions of an average that the array computes, and cycles of both engines for a block."""

    regions: frozenset[tuple[Run, Run]]  #: Rows and columns of its regions.
    #: Cycles.
    array: int
    vectors: int

    @classmethod
    def of(
        cls,
        layer: Pool,
        regions: Iterable[tuple[Run, Run]],
        blocks: int,
        config: Config,
        *,
        interleaved: bool = True,
    ) -> "ArrayShare":
        """Return the share with which the later engine ends first.

        Parameters
        ----------
        layer : Pool
            The pool.
        regions : iterable of (Run, Run)
            All regions that are computed at a time.
        blocks : int
            Channel blocks that are.
        config : Config
            The machine.
        interleaved : bool
            Whether several rows may be interleaved in the array.
        """
        space = DepthwiseSpace(interleaved=interleaved)
        vectors, candidates = 0, []
        for region in regions:
            rows, columns = (len(run.outputs) for run in region)
            spent = vector_cycles(
                VectorOp.SUM, rows * columns, region[0].size * region[1].size, config
            )
            if rows == columns == 1:  # one command for all blocks
                overhead = vector_overhead(VectorOp.SUM, config)
                spent += -(-overhead // blocks) - overhead
            vectors += spent
            if suits_array(layer) and _fits(layer, region, config):
                plan = depthwise_plan(layer.window, layer.stride, (rows, columns), config, space)
                passes = len(plan.kernel[0]) * len(plan.kernel[1])
                taken = plan.cycles + passes * CONV_CYCLES
                if taken * _LESS <= spent:
                    candidates.append((taken / spent, taken, spent, region))
        array, chosen = 0, set()
        for _, taken, spent, region in sorted(candidates, key=lambda each: each[0]):
            if max(array + taken, vectors - spent) < max(array, vectors):
                array, vectors = array + taken, vectors - spent
                chosen.add(region)
        return cls(frozenset(chosen), array, vectors)


def rough_regions(
    layer: Pool, images: tuple[Activation, Activation], extents: tuple[int, int]
) -> list[tuple[Run, Run]]:
    """Return regions of so many rows and columns of an output; of fewer, those of its middle."""
    axes = []
    for axis, outputs in enumerate(extents):
        window, stride = layer.window[axis], layer.stride[axis]
        if outputs < images[1].shape[axis]:
            axes.append([Run(range(outputs), 0, window, stride)])
            continue
        extent, pad = images[0].shape[axis], layer.padding[axis]
        axes.append(find_runs(Axis1D(window, stride, before=pad, size=extent), range(outputs)))
    return list(product(*axes))


def _fits(layer: Pool, region: tuple[Run, Run], config: Config) -> bool:
    """Return whether commands can read the windows of a region, and keep its sums."""
    for run, window, stride in zip(region, layer.window, layer.stride, strict=True):
        outputs = len(run.outputs)
        if outputs > config.acc_rows or (outputs - 1) * stride + window > LARGEST_EXTENT:
            return False
    return True
