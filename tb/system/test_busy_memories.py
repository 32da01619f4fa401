"""The chip beside memories whose data path is busy: results are exact, cycles as predicted."""

import json
import os
from pathlib import Path

import cocotb
import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.memory import MemoryTiming
from tpulite.bench.workloads import parse_workload
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.configs import named_config
from tpulite.golden.timing import predict_cycles
from tpulite.memories import named_memory
from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_rtl.verilog import TOP
from tpulite_tb.chip import ChipBench
from tpulite_tb.harness import simulate_verilog
from tpulite_tb.machines import DEFAULT, SMALL
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.layer_graphs import random_layer_graph
from tpulite_testing.regress import breadth
from tpulite_verilated.library import cached_verilog
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
        ("sram+flash", "16x16", 0),
        ("sdram16+sram", "16x16", OFF),
        *breadth(
            "these differ in numbers from those above",
            ("sram", "16x16", OFF),
            ("lpddr4", "16x16", OFF),
            ("lpddr4x16", "16x16", OFF),
            ("sdram32,shared=0", "16x16", OFF),
            ("sdram16", "8x8", OFF),
            ("ddr3", "8x8", OFF),
            ("sdram16", "4x4", 2 * OFF),
            ("sdram16+flash", "16x16", 0),
            ("sram+flash", "8x8", OFF),
            ("sram+flash", "4x4", OFF),
            ("sdram16+sram", "4x4", OFF),
            ("sram+sdram16", "8x8", OFF),
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


def drawn_program(seed: int, config: Config, largest: int) -> Program:
    """Return a program of up to about eight random layers."""
    layers = random_layer_graph(Seeded(seed), most=8, largest=largest)
    return compile_layers(layers, config, Options(effort=200))


def run_zeros(program: Program, device) -> int:
    """Run a program on images of zeros; return its cycles."""
    zeros = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in program.inputs}
    results = Session(program, device).run(zeros)
    assert results.fault is None and results.cycles is not None
    return results.cycles


@pytest.mark.parametrize("name", ["sdram16", "sram+flash", "sram+sdram16"])
def test_the_model_follows_drawn_programs(name: str) -> None:
    """In the sum, as short ones may be further off; STORE contends with the vector path."""
    memory, counted, predicted = named_memory(name), 0, 0
    device = RtlDevice(DEFAULT, timing=memory)
    for seed in (32, 35, 36):
        program = drawn_program(seed, DEFAULT, 40_000)
        counted += run_zeros(program, device)
        predicted += predict_cycles(program.commands, DEFAULT, memory)
    assert abs(predicted - counted) <= OFF * counted, f"{predicted:,} for {counted:,}"


PAIRS = ("sram+flash", "sdram16+sram", "sram+sdram16")
SEEDS = (3, 8)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(name=PAIRS)
async def counts_cycles(dut, name: str) -> None:
    """Run drawn programs beside a pair of memories, and keep their cycles."""
    bench = ChipBench(dut, SMALL, timing=named_memory(name))
    await bench.start()
    programs = [drawn_program(seed, SMALL, 2_000) for seed in SEEDS]
    cycles = [await bench.call(run_zeros, each, bench.device) for each in programs]
    bench.finish()
    (Path(os.environ["TPULITE_TEST_OUT"]) / f"{name}.json").write_text(json.dumps(cycles))


@pytest.mark.both_simulators("both simulators count the same in other tests")
def test_the_bench_and_the_device_have_the_same_memories(tmp_path: Path) -> None:
    simulate_verilog(
        cached_verilog(SMALL, portable=True),
        __file__,
        top=TOP,
        name="pairs_of_memories",
        extra_env={"TPULITE_TEST_OUT": str(tmp_path)},
    )
    for name in PAIRS:
        device = RtlDevice(SMALL, timing=named_memory(name))
        cycles = [run_zeros(drawn_program(seed, SMALL, 2_000), device) for seed in SEEDS]
        assert json.loads((tmp_path / f"{name}.json").read_text()) == cycles


def test_less_bandwidth_takes_longer() -> None:
    run = parse_workload("gemm_100x100x100")
    cycles = [
        run(RtlDevice(named_config("16x16"), timing=MemoryTiming(beat_cycles=beat))).cycles
        for beat in (0, 2, 8)
    ]
    assert cycles == sorted(set(cycles))
