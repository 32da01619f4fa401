"""What the cycle model's device counts, against the counters of the Verilated chip."""

import numpy as np
import pytest

import tpulite
from tpulite.arch.config import Config
from tpulite.bench import ModelDevice, run_ablation, run_workloads
from tpulite_verilated.rtl_device import RtlDevice

FIGURES = ("cycles", "dram_read_bytes", "dram_written_bytes")


@pytest.fixture(scope="module")
def device() -> RtlDevice:
    return RtlDevice(Config())


@pytest.mark.parametrize(
    "name", ["gemm_5x33x20", "mlp_b16_warm", "conv3x3_9x11x3_to_20", "dwconv3x3_20x20x16_x2", "cnn"]
)
def test_bytes_of_dram_are_those_of_the_chip(device: RtlDevice, name: str) -> None:
    (chip,) = run_workloads([name], device, device_name="rtl")
    (model,) = run_workloads([name], ModelDevice(Config()), device_name="model")
    assert chip.bit_exact and model.bit_exact
    for figure in FIGURES[1:]:
        assert getattr(chip, figure) == getattr(model, figure) > 0
    assert chip.cycles is not None and model.cycles == pytest.approx(chip.cycles, rel=0.01)


def test_products_of_matrices_are_exact_on_the_chip(device: RtlDevice) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((19, 24), (24, 20)))
    sums = a.astype(np.int32) @ b.astype(np.int32)
    chip, golden = (tpulite.gemm(a, b, order="document", device=x) for x in (device, "golden"))
    np.testing.assert_array_equal(chip.output, sums)
    assert chip.cycles == pytest.approx(golden.cycles, rel=0.01)
    chip = tpulite.gemm(a, b, bias=37, scale=0.001, order="document", device=device)
    expected = np.rint((sums + 37).astype(np.float32) * np.float32(0.001))
    np.testing.assert_array_equal(chip.output, expected.clip(-128, 127))


def test_every_mechanism_off_gives_the_same_bits(device: RtlDevice) -> None:
    for name in ("conv3x3_20x20x3_to_20", "dwconv3x3_20x20x16_x2", "cnn"):
        for result in run_ablation([name], device, device_name="rtl"):
            assert result.bit_exact, f"{name} without {result.off}"
