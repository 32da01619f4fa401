"""The chip beside memories whose data path is busy: results are exact, cycles as predicted."""

import pytest

from tpulite.arch.memory import MemoryTiming
from tpulite.bench.workloads import parse_workload
from tpulite.configs import named_config
from tpulite.golden.timing import predict_cycles
from tpulite.memories import named_memory
from tpulite_testing.regress import breadth
from tpulite_verilated.rtl_device import RtlDevice

NETWORKS = ("cnn", "gemm_100x100x100", "kws")
OFF = 0.003
"""Part of the cycles by which a prediction may be wrong; nearly all of them are exact."""


@pytest.mark.parametrize(
    ("name", "config", "off"),
    [
        ("sdram16", "16x16", OFF),
        ("ddr3", "16x16", OFF),
        ("reference,beat_cycles=2,burst_cycles=3", "16x16", OFF),
        *breadth(
            "these differ in numbers from those above",
            ("sram", "16x16", OFF),
            ("lpddr4", "16x16", OFF),
            ("lpddr4x16", "16x16", OFF),
            ("sdram32,shared=0", "16x16", OFF),
            ("sdram16", "8x8", OFF),
            ("ddr3", "8x8", OFF),
            ("sdram16", "4x4", 2 * OFF),
        ),
    ],
)
def test_the_model_follows_the_chip(name: str, config: str, off: float) -> None:
    memory = named_memory(name)
    device = RtlDevice(named_config(config), timing=memory)
    for network in NETWORKS:
        outcome = parse_workload(network)(device)
        cycles = outcome.counters["cycles"]
        predicted = predict_cycles(outcome.programs[-1].commands, device.config, memory)
        assert outcome.exact
        assert abs(predicted - cycles) <= off * cycles, f"{network}: {predicted:,} for {cycles:,}"


def test_less_bandwidth_takes_longer() -> None:
    run = parse_workload("gemm_100x100x100")
    cycles = [
        run(RtlDevice(named_config("16x16"), timing=MemoryTiming(beat_cycles=beat))).cycles
        for beat in (0, 2, 8)
    ]
    assert cycles == sorted(set(cycles))
