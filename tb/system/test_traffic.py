"""Counted bytes of DRAM traffic against the counters of the Verilated chip."""

import numpy as np
import pytest

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.models import CNN_DIGITS
from tpulite.report.traffic import dram_traffic
from tpulite.runtime.model import Model
from tpulite_tb.machines import DEFAULT, SMALL
from tpulite_testing.drawn.range_cases import config_name
from tpulite_testing.regress import breadth
from tpulite_verilated.rtl_device import RtlDevice

SLOW_TO_BUILD = "simulators of theirs take minutes; rows of two beats are in the DMA's benches"


@pytest.mark.parametrize(
    "config",
    [SMALL, DEFAULT, *breadth(SLOW_TO_BUILD, Config(array_size=8), Config(array_size=32))],
    ids=config_name,
)
def test_traffic_is_what_the_chip_counts(config: Config) -> None:
    """A machine with N = 4 loads rows that are no whole beats, one with N = 32 two a row."""
    model = Model.load(CNN_DIGITS, config=config)
    image = np.random.default_rng(4).integers(0, 128, (1, 16, 16, 1)).astype(np.int8)
    results = model.run(image, device=RtlDevice(model.config, dram_bytes=1 << 24))
    ((counted,),) = results.segments
    traffic = dram_traffic(model.programs[0])
    assert traffic.read_bytes == counted.counters["read_beats"] * BEAT_BYTES
    assert traffic.written_bytes == counted.counters["write_beats"] * BEAT_BYTES
