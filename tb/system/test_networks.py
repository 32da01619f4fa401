"""Networks on the Verilated chip of every size: exact, and in the same cycles everywhere."""

import json
import os
from pathlib import Path

import cocotb
import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.compiler import compile_layers, compile_pair
from tpulite.configs import named_config
from tpulite.graph.network import Dense, Network
from tpulite.models import mlp_digits
from tpulite.runtime.reference import reference
from tpulite.runtime.session import Session
from tpulite_rtl.verilated.library import cached_verilog
from tpulite_rtl.verilated.rtl_device import RtlDevice
from tpulite_rtl.verilog import TOP
from tpulite_tb.chip import ChipBench
from tpulite_tb.harness import simulate_verilog

NAMES = ("4x4", "8x8", "16x16", "32x32")
SMALL = Config(array_size=4, ub_rows=256, acc_rows=64, ub_banks=4, queue_depth=4)

GEMMS = {
    "one": (1, 1, 1),
    "tails": (17, 33, 19),
    "wide": (5, 40, 100),
    "deep": (3, 700, 8),
    "tall": (1100, 20, 24),  # more vectors than accumulators
    "square": (64, 64, 64),
    "beyond_the_buffer": (330, 520, 70),  # at N = 4 its input alone is three times the buffer
}


def gemm(k: int, n: int, rounding: Rounding, *, raw: bool = False, seed: int = 0) -> Network:
    """Make a random layer, with a zero point everywhere unless it is raw."""
    rng = np.random.default_rng(seed)
    quantization = {} if raw else {
        "input_zero_point": int(rng.integers(-128, 128)),
        "output_zero_point": int(rng.integers(-20, 20)),
    }  # fmt: skip
    layer = Dense(
        name="gemm",
        weight=rng.integers(-128, 128, (k, n), np.int8),
        bias=np.zeros(n, np.int32) if raw else rng.integers(-9999, 9999, n, np.int32),
        scale=(rng.uniform(0.5, 2, n) / (200 * np.sqrt(k))).astype(np.float32),
        rounding=rounding,
        weight_zero_point=int(rng.integers(-128, 128)),
        raw=raw,
        **quantization,
    )
    return Network(name="gemm", layers=(layer,), input_dtype="int8")


def inputs(network: Network, m: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (m, network.k), np.int8)


@pytest.fixture(scope="module", params=NAMES)
def device(request) -> RtlDevice:
    return RtlDevice(named_config(request.param), dram_bytes=1 << 24)


def check(device: RtlDevice, network: Network, m: int) -> None:
    x = inputs(network, m)
    session = Session(compile_layers(network.graph(m), device.config), device)
    assert np.array_equal(session.run(x).output, reference(network, x))


@pytest.mark.parametrize("name", GEMMS)
def test_gemms(device: RtlDevice, name: str) -> None:
    m, k, n = GEMMS[name]
    roundings = list(Rounding)
    check(device, gemm(k, n, roundings[(k + n) % len(roundings)]), m)


def test_raw_gemm(device: RtlDevice) -> None:
    check(device, gemm(50, 37, Rounding.SINGLE, raw=True), 21)


def test_digits_cold_and_warm(device: RtlDevice) -> None:
    network = mlp_digits()
    x = inputs(network, 16)
    due = reference(network, x)
    cold, warm = compile_pair(network.graph(16), device.config)
    first = Session(cold, device)
    second = Session(warm, device, base=first.end)
    before = first.run(x)
    again = [second.run(x) for _ in range(2)]
    assert np.array_equal(before.output, due)
    assert all(np.array_equal(results.output, due) for results in again)
    # A machine without caches or refresh takes the same time for the same work.
    assert again[0].counters == again[1].counters
    assert again[0].counters["read_beats"] < before.counters["read_beats"] / 2


def run_small(device) -> list[dict[str, int]]:
    """Run a few networks; return all counters."""
    counters = []
    for m, k, n in ((1, 1, 1), (17, 33, 19), (64, 24, 8)):
        network = gemm(k, n, Rounding.RUY, seed=m)
        x = inputs(network, m)
        results = Session(compile_layers(network.graph(m), SMALL), device).run(x)
        assert np.array_equal(results.output, reference(network, x))
        counters.append(dict(results.counters))
    return counters


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def counts_cycles(dut) -> None:
    """Run the networks under this simulator and keep what the chip has counted."""
    bench = ChipBench(dut, SMALL, dram_bytes=1 << 20)
    await bench.start()
    counters = await bench.call(run_small, bench.device)
    bench.monitor.finish()
    Path(os.environ["TPULITE_COUNTERS"]).write_text(json.dumps(counters))


@pytest.mark.both_simulators
def test_every_simulator_counts_the_same(tmp_path) -> None:
    path = tmp_path / "counters.json"
    simulate_verilog(
        cached_verilog(SMALL),
        __file__,
        top=TOP,
        name="networks",
        extra_env={"TPULITE_COUNTERS": str(path)},
    )
    device = RtlDevice(SMALL, dram_bytes=1 << 20)
    assert json.loads(path.read_text()) == run_small(device)
