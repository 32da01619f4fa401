"""PRELU with a slope of each channel, against LiteRT on the file itself."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.golden.timing import program_cycles
from tpulite.quant.exactness import Exactness
from tpulite.quant.prelu_tflite import join_prelus
from tpulite.runtime.host.libraries import open_library
from tpulite.runtime.model import Model
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.oracles.model_tensors import equals_library
from tpulite_testing.quick_options import quick_options

CONFIGS = (Config(), Config(array_size=4), Config(array_size=8, requant_lanes=2, vector_lanes=4))
SLOPES = {"both signs": (-127, 128), "falling": (-127, 5), "rising": (6, 128), "at zero": (4, 7)}
SCALES = {"alike": 0.05, "coarse": 0.13, "fine": 0.002}
"""Of the result; of the input it is 0.05."""


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("signs", SLOPES)
def test_slopes_of_channels(signs: str, scale: str, tmp_path: Path) -> None:
    b, rng = Builder(), np.random.default_rng(len(signs) + len(scale))
    shape, config = (1, 9, 10, 21), CONFIGS[(len(signs) + len(scale)) % len(CONFIGS)]
    x = b.input(shape, 0.05, 3)
    slopes = b.constant(rng.integers(*SLOPES[signs], (1, 1, 21)).astype(np.int8), 0.01, 5)
    data = b.build(b.operator("PRELU", [x, slopes], [b.tensor(shape, SCALES[scale], -7)]))
    model = equals_library(tmp_path, data, config=config)
    commands = [command for program in model.programs for command in program.commands]
    assert any(command.opcode == Opcode.CONV for command in commands)


def test_a_prelu_runs_beside_the_convolutions_around_it(tmp_path: Path) -> None:
    b, rng = Builder(), np.random.default_rng(6)
    shape, scales = (1, 24, 24, 32), {"weight_scale": 0.002, "scale": 0.05, "zero_point": 3}
    bias, weights = [9] * 32, rng.integers(-127, 128, (2, 32, 1, 1, 32)).astype(np.int8)
    x = b.conv(b.input(shape, 0.05, 3), weights[0], bias, **scales)
    slopes = b.constant(rng.integers(-127, 128, (1, 1, 32)).astype(np.int8), 0.01, 5)
    y = b.operator("PRELU", [x, slopes], [b.tensor(shape, 0.06, -7)])
    data = b.build(b.conv(y, weights[1], bias, **scales))
    (beside,) = map(program_cycles, equals_library(tmp_path, data).programs)
    options = quick_options(grouping=False)
    (behind,) = Model.load(tmp_path / "net.tflite", exact="litert-ref", options=options).programs
    assert beside < 0.9 * program_cycles(behind)


@pytest.mark.parametrize("between", [False, True])
def test_slopes_of_uint8(between: bool, tmp_path: Path) -> None:
    b, rng = Builder("uint8"), np.random.default_rng(8)
    shape = (1, 7, 9, 20)
    x = b.input(shape, 0.05, 131)
    weight = rng.integers(0, 256, (20, 1, 1, 20)).astype(np.uint8)
    scales = {"weight_scale": 0.004, "weight_zero_point": 128, "scale": 0.05, "zero_point": 131}
    if between:
        x = b.conv(x, weight, rng.integers(-500, 500, 20), **scales)
    slopes = b.constant(rng.integers(0, 256, (1, 1, 20)).astype(np.uint8), 0.01, 120)
    y = b.operator("PRELU", [x, slopes], [b.tensor(shape, 0.06, 125)])
    if between:
        y = b.conv(y, weight, rng.integers(-500, 500, 20), **scales)
    equals_library(tmp_path, b.build(y))


@pytest.mark.parametrize("shared", [False, True])
def test_slopes_that_a_quantizer_leaves_in_floats_become_int8(shared: bool, tmp_path: Path) -> None:
    b, rng = Builder(), np.random.default_rng(9)
    shape = (1, 7, 9, 20)
    x = b.input(shape, 0.05, 3)
    floats = b.unary("DEQUANTIZE", x, dtype="float32")
    values = rng.uniform(-0.5, 1, (1, 1, 20)).astype(np.float32)
    slopes = b.tensor((1, 1, 20), dtype="float32", data=values)
    y = b.operator("PRELU", [floats, slopes], [b.tensor(shape, dtype="float32")])
    ends = [b.unary("QUANTIZE", y, 0.06, -7, dtype="int8"), *[floats] * shared]
    before = b.build(*ends)
    after = join_prelus(before)
    model = equals_library(tmp_path, after)
    names = [each.operator for each in model.summary()]
    assert names == [*["DEQUANTIZE"] * shared, "PRELU"]
    values = rng.integers(-128, 128, shape).astype(np.int8)
    rounded, whole = (
        open_library(data, "tflite", Exactness.LITERT_REF)([values])[0].astype(int)
        for data in (after, before)
    )
    # Half a step of a slope, 1 / 254, times the smallest input, and a step of rounding.
    assert np.abs(rounded - whole).max() <= 1 + 0.05 * 131 / 254 / 0.06


def test_slopes_of_floats_that_others_read_stay() -> None:
    b = Builder("float32")
    slopes = b.constant(np.ones((1, 1, 4), np.float32))
    y = b.operator("PRELU", [b.input((1, 2, 2, 4)), slopes], [b.tensor((1, 2, 2, 4))])
    data = b.build(y)
    assert join_prelus(data) is data
