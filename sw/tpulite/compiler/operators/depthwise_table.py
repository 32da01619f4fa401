"""Depthwise convolutions of known extents, and the numbers from which their commands follow."""

from typing import NamedTuple

from tpulite.compiler.geometry.axis import grain
from tpulite.compiler.operators.operator import Resident, Site
from tpulite.compiler.operators.transfer import NOWHERE
from tpulite.compiler.plan.depthwise import FilterFacts, filter_rows, pitch_of, stays
from tpulite.compiler.plan.segments import numbers
from tpulite.compiler.plan.slabs import Room, Strategy, slab_cuts

_SIZES = ("slots", "weight_slots", "in_slot", "out_slot", "tile_rows")


class FilterWork(NamedTuple):
    """A depthwise convolution, its extents, how it is cut, and where its tensors are."""

    facts: FilterFacts
    extents: tuple[int, int, int]
    strategy: Strategy
    site: Site


def filter_numbers(work: FilterWork) -> dict[str, int]:
    """Return all numbers from which the commands follow."""
    facts, extents, strategy, site = work
    sizes, weights, (batch, height, width) = strategy.sizes, facts.weights, extents
    pattern = weights.patterns[sizes["pattern"]]
    source, target = site.sources[0], site.target
    sourced, stored = not isinstance(source, Resident), not isinstance(target, Resident)
    rows = filter_rows(facts, extents, Room(0, (sourced,), stored))
    out_width = facts.x.outputs(width)
    whole = (0, rows.out_height), (0, out_width)
    if weights.divisors:
        whole = facts.y.whole(height), facts.x.whole(width)
    return {
        **numbers("y", facts.y),
        **numbers("x", facts.x),
        **numbers("in", source if sourced else NOWHERE),
        **numbers("out", target if stored else NOWHERE),
        **slab_cuts(strategy.mode, sizes["parts"], rows),
        **{name: sizes[name] for name in _SIZES},
        "batch": batch,
        "height": height,
        "width": width,
        "out_height": rows.out_height,
        "out_width": out_width,
        "whole_row": whole[0][0],
        "whole_rows_stop": whole[0][1],
        "whole_column": whole[1][0],
        "whole_columns_stop": whole[1][1],
        "read_unit": grain(rows.in_bytes),
        "pitch": pitch_of(width, facts.config) if sourced else width,
        "in_block": source.block_rows if isinstance(source, Resident) else 0,
        "out_block": target.block_rows if isinstance(target, Resident) else 0,
        "blocks": facts.blocks,
        "inner": pattern.inner,
        "most": pattern.most,
        "few": pattern.few,
        "many": pattern.many,
        "numbers": pattern.numbers,
        "constants": pattern.offset,
        "kernel_parts": len(pattern.taps),
        "step": pattern.step,
        "number_rows": pattern.tile_rows(facts.config.array_size),
        "block_rows": facts.block_rows(pattern),
        "records": weights.record_rows,
        "record_step": weights.record_rows // max(len(weights.divisors), 1),
        "zeros": weights.zeros,
        "form": weights.form,
        "stays": stays(strategy.kind),
        "sourced": sourced,
        "stored": stored,
    }
