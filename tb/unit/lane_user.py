"""The second user of the requantizer's lanes: the vector engine's place, taken at random."""

import random
from typing import Any

from cocotb.triggers import RisingEdge
from scale_draw import draw_scaled

from tpulite.arch.config import Config
from tpulite.arch.isa import RECORD
from tpulite.arch.numerics import Rounding, requantize
from tpulite_rtl.vpu.requantizer_lane import STAGES
from tpulite_rtl.vpu.shared_lane import FIELD_STAGES, LANE_INPUT
from tpulite_tb.bits import pack, pack_lanes

__all__ = ["use_lanes"]

_WIDTHS = {field.name: field.width for field in RECORD.fields}


async def use_lanes(dut, config: Config) -> None:
    """Offer a sum and a record of its own to each lane at ``dut.vector``, and check all results.

    Fields come in their stages; those of stages without a sum of its own are garbage.
    """
    roundings = [Rounding[name.upper()] for name in config.roundings]
    lanes = config.vector_lanes
    assert lanes is not None
    inside: list[list[tuple[int, dict[str, Any]]] | None] = [None] * STAGES
    ready = True
    while True:
        drawn = [draw_scaled(random.choice(roundings)) for _ in range(lanes)]
        stages = [drawn, *inside]
        inputs = []
        for lane in range(lanes):
            fields = {"sum": drawn[lane][0]}
            for name, stage in FIELD_STAGES.items():
                entries = stages[stage]
                garbage = random.getrandbits(_WIDTHS[name])
                fields[name] = entries[lane][1][name] if entries else garbage
            inputs.append(pack(LANE_INPUT, fields))
        dut.vector__lane.value = pack_lanes(inputs, LANE_INPUT.size)
        dut.vector__valid.value = valid = random.random() < 0.8
        await RisingEdge(dut.clk)
        if leaving := inside[-2]:
            wanted = [requantize(value, **record) for value, record in leaving]
            assert int(dut.vector__o.value) == pack_lanes(wanted, 8), str(leaving)
        entered = valid and ready
        ready = bool(dut.vector__next_ready.value)
        inside = [drawn if entered else None, *inside[:-1]]
