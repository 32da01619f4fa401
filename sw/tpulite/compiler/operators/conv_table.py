"""Convolutions of known extents, and the numbers from which their commands follow."""

from typing import NamedTuple

from tpulite.arch.config import BEAT_BYTES
from tpulite.compiler.geometry.axis import grain
from tpulite.compiler.operators.operator import Resident, Site
from tpulite.compiler.operators.transfer import NOWHERE
from tpulite.compiler.plan.conv_facts import ActivationExtents, ConvFacts, Units
from tpulite.compiler.plan.conv_slabs import BY_TILE, LARGE_UNITS, STAYING, slab_rows
from tpulite.compiler.plan.segments import numbers
from tpulite.compiler.plan.slabs import Room, Strategy, slab_cuts

_SIZES = ("panels", "slab_rows", "in_slot", "out_slot", "in_columns", "out_columns", "weights_at")


class ConvWork(NamedTuple):
    """A convolution, its extents, how it is cut, and where its tensors are."""

    facts: ConvFacts
    extents: ActivationExtents
    strategy: Strategy
    site: Site


def units_of(work: ConvWork) -> Units:
    """Return the units of weights that its strategy loads one at a time."""
    if "chunk" in work.strategy.sizes:
        return work.facts.chunked(work.strategy.sizes["chunk"])
    return work.facts.large if work.strategy.kind in LARGE_UNITS else work.facts.small


def conv_numbers(work: ConvWork) -> dict[str, int]:
    """Return all numbers from which the commands follow."""
    facts, extents, strategy, site = work
    sizes = strategy.sizes
    kind = strategy.kind
    source, target = site.sources[0], site.target
    sourced, stored = not isinstance(source, Resident), not isinstance(target, Resident)
    rows, slots = slab_rows(facts, extents, Room(0, (sourced,), stored)), sizes["slots"]
    in_block = sizes["in_rows"] * sizes["in_columns"]
    return {
        **facts.numbers,
        **numbers("in", source if sourced else NOWHERE),
        **numbers("out", target if stored else NOWHERE),
        **slab_cuts(strategy.mode, sizes["parts"], rows),
        **{name: sizes[name] for name in _SIZES},
        "batch": extents.batch,
        "height": extents.height,
        "width": extents.width,
        "out_height": extents.out_height,
        "out_width": extents.out_width,
        "read_unit": grain(rows.in_bytes),
        "column_unit": BEAT_BYTES // min(BEAT_BYTES, facts.config.row_bytes),
        "in_slots": slots.inputs,
        "out_slots": slots.outputs,
        "weight_slots": slots.weights,
        "in_block": source.block_rows if isinstance(source, Resident) else in_block,
        "out_block": target.block_rows if isinstance(target, Resident) else 0,
        "beside": sizes.get("beside", 1),
        "slab_vectors": sizes["slab_rows"] * sizes["out_columns"],
        "largest": units_of(work).largest,
        "by_block": kind not in BY_TILE,
        "resident": kind in STAYING,
        "cut": kind.endswith("panels"),
        "sourced": sourced,
        "stored": stored,
    }
