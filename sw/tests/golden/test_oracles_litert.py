"""Requantization against LiteRT's kernels, which are what it promises to equal, bit for bit.

Only exact ties below zero tell ``AWAY`` from ``SINGLE``. They need a multiplier with many zeros at
its end, so they hardly occur with trained scales; some cases here are made of them.
"""

import numpy as np
import pytest

from tpulite.arch.numerics import Rounding, float32_multiplier, quantize_multiplier
from tpulite.golden import ops

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite_testing.oracles.litert_models import run_conv, run_fully_connected

CASES = 40
M, N = 96, 64

ORACLES = {
    "fully_connected-reference": (run_fully_connected, "reference", Rounding.AWAY),
    "fully_connected-optimized": (run_fully_connected, "optimized", Rounding.RUY),
    "fully_connected-xnnpack": (run_fully_connected, "xnnpack", Rounding.FLOAT32),
    "conv-reference": (run_conv, "reference", Rounding.TFLITE),
    "conv-optimized": (run_conv, "optimized", Rounding.RUY),
    "conv-xnnpack": (run_conv, "xnnpack", Rounding.FLOAT32),
}


def draw_layer(rng: np.random.Generator, *, channels: int, case: int):
    """Draw a layer: in turn with extreme zero points and scales, ordinary, and with many ties."""
    extreme = case % 4 == 0
    k = int(rng.integers(1, 200))
    x = rng.integers(-128, 128, (M, k)).astype(np.int8)
    w = rng.integers(-127, 128, (k, N)).astype(np.int8)
    bias = rng.integers(-3000, 3000, N).astype(np.int32)
    zero_points = [int(z) for z in rng.integers(-128, 128, 2)]
    if extreme:
        zero_points = [[-128, 127], [127, -128], [-128, -128], [127, 127]][case // 4 % 4]
    weight_scales = rng.uniform(0.005, 0.05, channels).astype(np.float32)
    x_scale = np.float32(rng.uniform(0.005, 0.05))
    # The output scale that spreads the results over int8, or over much more or less than that.
    spread = x_scale * weight_scales.mean() * np.sqrt(k) * 74 * 74
    fill = float(2.0 ** rng.integers(2, 12)) if extreme else rng.uniform(30, 200)
    y_scale = np.float32(max(spread / fill, x_scale * weight_scales.max() / 200))
    if case % 4 == 2:
        # With powers of two the exact results are often just between two integers.
        x_scale, weight_scales, y_scale = (
            np.exp2(np.rint(np.log2(s))).astype(np.float32)
            for s in (x_scale, weight_scales, y_scale)
        )
    return x, w, bias, (x_scale, weight_scales, y_scale), zero_points


def parameters(scales, rounding: Rounding) -> dict[str, np.ndarray]:
    """Return multipliers and shifts as the kernels compute them from the scales."""
    x_scale, weight_scales, y_scale = scales
    if rounding == Rounding.FLOAT32:
        effective = x_scale * weight_scales / y_scale  # in float32
        pairs = [float32_multiplier(float(scale)) for scale in effective]
    else:
        effective = float(x_scale) * weight_scales.astype(np.float64) / float(y_scale)
        pairs = [quantize_multiplier(float(scale)) for scale in effective]
    multiplier, shift = np.array(pairs).T
    return {"multiplier": multiplier, "shift": shift}


@pytest.mark.parametrize("oracle", ORACLES)
def test_requantization_equals_litert(oracle):
    run, kernels, rounding = ORACLES[oracle]
    rng = np.random.default_rng(2024)
    elements = saturated = 0
    differences = dict.fromkeys(Rounding, 0)
    for case in range(CASES):
        channels = N if run is run_conv else 1
        x, w, bias, scales, zero_points = draw_layer(rng, channels=channels, case=case)
        y = run(kernels, x, w, bias, scales=scales, zero_points=zero_points)
        acc = ops.matmul_int32(x, w) + bias - zero_points[0] * w.sum(axis=0, dtype=np.int32)
        for other in Rounding:
            ours = ops.requantize(
                acc,
                **parameters(scales, other),
                rounding=other,
                zero_point=zero_points[1],
            )
            differences[other] += np.count_nonzero(ours != y)
        elements += y.size
        saturated += np.count_nonzero((y == -128) | (y == 127))
    assert elements > 200_000
    assert 0.05 < saturated / elements < 0.8
    assert differences.pop(rounding) == 0
    assert min(differences.values()) > 0, differences
