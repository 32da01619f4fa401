"""Networks on the Verilated chip of every size: exact, and in the same cycles everywhere."""

import json
import os
from pathlib import Path

import cocotb
import numpy as np
import pytest

from tpulite.arch.numerics import Rounding
from tpulite.compiler.options import Options
from tpulite.configs import named_config
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.models import MLP_DIGITS
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.runtime.model import Model
from tpulite.runtime.session import Session
from tpulite_rtl.verilog import TOP
from tpulite_tb.chip import ChipBench
from tpulite_tb.harness import simulate_verilog
from tpulite_tb.machines import SMALL
from tpulite_testing.kept import kept_program
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import thinned
from tpulite_verilated.library import cached_verilog
from tpulite_verilated.rtl_device import RtlDevice

REASON = "simulators of the others take minutes, and have no other units"
NAMES = thinned(("4x4", "8x8", "16x16", "32x32"), "16x16", reason=REASON)

GEMMS = {
    "one": (1, 1, 1),
    "tails": (17, 33, 19),
    "wide": (5, 40, 100),
    "deep": (3, 700, 8),
    "tall": (1100, 20, 24),  # more vectors than accumulators
    "square": (64, 64, 64),
    "beyond_the_buffer": (110, 130, 70),  # of the small machine: its input is 14 times as large
}


def gemm(
    m: int, k: int, n: int, rounding: Rounding, *, raw: bool = False, seed: int = 0
) -> LayerGraph:
    """Make a random layer, with a zero point everywhere unless it is raw."""
    rng = np.random.default_rng(seed)
    record = make_requantization(
        (rng.uniform(0.5, 2, n) / (200 * np.sqrt(k))).astype(np.float32),
        rounding,
        int(rng.integers(-20, 20)),
        bias=rng.integers(-9999, 9999, n),
    )
    layer = Conv(
        name="gemm",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (1, 1, k, n), np.int8),
        requantization=None if raw else record,
        input_zero_point=0 if raw else int(rng.integers(-128, 128)),
        weight_zero_point=int(rng.integers(-128, 128)),
    )
    images = {"x": Activation((m, 1, k)), "y": Activation((m, 1, n), "int32" if raw else "int8")}
    return LayerGraph("gemm", (layer,), images, ("x",), ("y",))


def inputs(layers: LayerGraph) -> np.ndarray:
    return np.random.default_rng(1).integers(-128, 128, layers.activations["x"].shape, np.int8)


def due(layers: LayerGraph) -> np.ndarray:
    return run_layers(layers, {"x": inputs(layers)})["y"]


@pytest.fixture(scope="module", params=["small", *NAMES])
def device(request) -> RtlDevice:
    config = SMALL if request.param == "small" else named_config(request.param)
    return RtlDevice(config, dram_bytes=1 << 24)


def check(device: RtlDevice, layers: LayerGraph) -> None:
    session = Session(kept_program(layers, device.config, quick_options()), device)
    assert np.array_equal(session.run(inputs(layers)).output, due(layers))


@pytest.mark.parametrize("name", GEMMS)
def test_gemms(device: RtlDevice, name: str) -> None:
    m, k, n = GEMMS[name]
    roundings = list(Rounding)
    check(device, gemm(m, k, n, roundings[(k + n) % len(roundings)]))


def test_raw_gemm(device: RtlDevice) -> None:
    check(device, gemm(21, 50, 37, Rounding.SINGLE, raw=True))


@pytest.mark.parametrize("device", NAMES, indirect=True)  # whose buffers hold the weights
def test_digits_cold_and_warm(device: RtlDevice) -> None:
    options = Options(batch=16, resident=True)
    model = Model.load(MLP_DIGITS, config=device.config, options=options)
    x = np.random.default_rng(1).integers(-128, 128, (48, 256), np.int8)
    results = model.run(x, device)
    assert np.array_equal(results.output, model.reference(x)["output"])
    (cold,), (warm,), (again,) = results.segments
    # A machine without caches or refresh takes the same time for the same work.
    assert warm.counters == again.counters
    assert warm.counters["read_beats"] < cold.counters["read_beats"] / 2


def run_small(device) -> list[dict[str, int]]:
    """Run a few networks; return all counters."""
    counters = []
    for m, k, n in ((1, 1, 1), (17, 33, 19), (64, 24, 8)):
        layers = gemm(m, k, n, Rounding.RUY, seed=m)
        results = Session(kept_program(layers, SMALL), device).run(inputs(layers))
        assert np.array_equal(results.output, due(layers))
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
